#include "collector/plan.hpp"

#include <algorithm>
#include <cmath>

#include "collector/collect.hpp"
#include "collector/memory.hpp"
#include "collector/schedule.hpp"
#include "collector/settings.hpp"
#include "collector/trace_size.hpp"
#include "engine/formats/open_weights.hpp"

namespace dgap::collector {
namespace {

BlockShape shape_of(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                    const engine::HyperParameters& model) {
  const std::int64_t vocab = real_vocabulary(tokenizer_vocabulary, model.vocab_size);
  return block_shape(config, vocab, model.vocab_size, model.hidden_size);
}

void add_work(const Pass& pass, std::int64_t steps, Plan& plan) {
  std::int64_t done = 0;
  for (const int context : pass.contexts) {
    plan.prefixes += rows_from(done, context - 1 - done);
    plan.decode += rows_from(context - 1, steps);
    done = context - 1 + steps;
  }
}

/// The exact one, and one of its own for each scheme that does not continue it.
std::int64_t prefills(const schemas::Config& config) {
  return 1 + std::ranges::count(config.precisions, schemas::PrefillMode::quantized,
                                &schemas::Scheme::prefill);
}

}  // namespace

Plan plan_with(const schemas::Config& config, const engine::Tokenizer& tokenizer,
               const engine::HyperParameters& model, base::Progress& progress) {
  check_context(config, model.context_length);
  const Schedule schedule = make_schedule(config, tokenizer, progress);
  Plan plan;
  plan.books = static_cast<std::int64_t>(schedule.books.size()) - schedule.skipped_books;
  plan.skipped_books = schedule.skipped_books;
  plan.units = schedule.units;
  plan.parts = static_cast<std::int64_t>(schedule.parts.size());
  plan.steps = schedule.steps;
  plan.decode_rows = plan.steps * static_cast<std::int64_t>(config.precisions.size());
  for (const Pass& pass : schedule.passes) add_work(pass, pass.steps, plan);
  plan.prefill_tokens = std::llround(plan.prefixes.rows) * prefills(config);
  plan.trace_bytes = trace_bytes_per_step(config, shape_of(config, tokenizer.vocab_size(), model)) *
                     static_cast<double>(plan.steps);
  const std::size_t at_once = precisions_at_once(config, tokenizer.vocab_size(), model);
  plan.precisions_at_once = static_cast<std::int64_t>(at_once);
  plan.peak_memory_bytes = memory_need(config, tokenizer.vocab_size(), model, at_once).total();
  return plan;
}

Plan plan(const schemas::Config& config) {
  base::Progress silent;
  const auto weights = engine::open_weights(config.model.path, config.model.format);
  const auto tokenizer = engine::open_tokenizer(config.model.path, config.model.format);
  return plan_with(config, *tokenizer, weights->parameters(), silent);
}

}  // namespace dgap::collector
