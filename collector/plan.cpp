#include "collector/plan.hpp"

#include <tbb/task_arena.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "collector/collect.hpp"
#include "collector/schedule.hpp"
#include "collector/settings.hpp"
#include "engine/formats/open_weights.hpp"

namespace dgap::collector {
namespace {

// Flat distributions of small models hold some hundred candidates a step; measured on SmolLM2-135M
// and books, as are the bytes that deflate leaves of 100.
constexpr double kCandidates = 400.0;
constexpr double kCompressed = 0.65;

double bytes_per_step(const schemas::Config& config, const BlockShape& shape) {
  const double top = shape.top, logits = shape.full ? 4.0 * static_cast<double>(shape.vocab) : 0.0;
  const double hidden = shape.hidden ? 2.0 * static_cast<double>(shape.hidden_size) : 0.0;
  const double reference = 12.0 + 16.0 + 8.0 + 8.0 * top + 8.0 * kCandidates + logits;
  const double precision = 20.0 + 20.0 * top + 8.0 * kCandidates + hidden + logits;
  return reference + static_cast<double>(config.precisions.size()) * precision;
}

double weight_bytes(const schemas::Config& config, const engine::HyperParameters& p) {
  const double embeddings =
      static_cast<double>(p.vocab_size * p.hidden_size) * (p.tied_embeddings ? 1.0 : 2.0);
  const double attention =
      static_cast<double>(p.hidden_size) * p.head_dim * (2.0 * p.heads + 2.0 * p.kv_heads);
  const double mlp = 3.0 * static_cast<double>(p.hidden_size * p.intermediate_size);
  return (embeddings + p.layers * (attention + mlp)) * (config.model.compute == "bf16" ? 2.0 : 4.0);
}

/// Exact FP16 keys and values, keys before RoPE too, and every precision's codes.
double cache_bytes(const schemas::Config& config, const engine::HyperParameters& p,
                   std::int64_t tokens) {
  const int heads = p.layers * p.kv_heads;
  double bits = 0.0;  // of one token and channel, over all heads
  bool keep_pre_rope = false;
  for (const schemas::Scheme& scheme : config.precisions) {
    for (int i = 0; i < heads; ++i) {
      const schemas::HeadScheme head = head_scheme(scheme, i / p.kv_heads, i % p.kv_heads);
      bits += head.key.bits + head.value.bits;
    }
    keep_pre_rope |= scheme.key_before_rope;
  }
  const double exact = heads * (keep_pre_rope ? 6.0 : 4.0);
  return static_cast<double>(tokens) * p.head_dim * (exact + bits / 8.0);
}

BlockShape shape_of(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                    const engine::HyperParameters& model) {
  const std::int64_t vocab = real_vocabulary(tokenizer_vocabulary, model.vocab_size);
  return block_shape(config, vocab, model.vocab_size, model.hidden_size);
}

}  // namespace

double peak_memory_bytes(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                         const engine::HyperParameters& model) {
  const BlockShape shape = shape_of(config, tokenizer_vocabulary, model);
  const std::vector<int>& contexts = config.corpus.context_lengths;
  const std::int64_t steps = config.corpus.decode_steps;
  const std::int64_t longest = *std::max_element(contexts.begin(), contexts.end()) + steps;
  const int threads =
      config.run.threads > 0 ? config.run.threads : tbb::this_task_arena::max_concurrency();
  const auto units = std::max<std::int64_t>(config.trace.units_per_part,
                                            static_cast<std::int64_t>(contexts.size()));
  // A part lies there whole, and twice more, compressed, while it is written.
  const double part = (1.0 + 2.0 * kCompressed) * bytes_per_step(config, shape) *
                      static_cast<double>(units * steps);
  return weight_bytes(config, model) + cache_bytes(config, model, longest) +
         PairedBlock::bytes(shape, threads) + part;
}

Plan plan_with(const schemas::Config& config, const engine::Tokenizer& tokenizer,
               const engine::HyperParameters& model, base::Progress& progress) {
  check_context(config, model.context_length);
  const Schedule schedule = make_schedule(config, tokenizer, progress);
  Plan plan;
  plan.books = static_cast<std::int64_t>(schedule.books.size()) - schedule.skipped_books;
  plan.skipped_books = schedule.skipped_books;
  plan.units = schedule.units;
  plan.parts = static_cast<std::int64_t>(schedule.parts.size());
  plan.steps = schedule.units * config.corpus.decode_steps;
  plan.decode_rows = plan.steps * static_cast<std::int64_t>(config.precisions.size());
  // The exact prefix, and one of its own for each scheme that does not continue it.
  const std::int64_t prefills =
      1 + std::count_if(config.precisions.begin(), config.precisions.end(), [](const auto& scheme) {
        return scheme.prefill == schemas::PrefillMode::quantized;
      });
  for (const Pass& pass : schedule.passes) {
    plan.prefill_tokens += prefills * (pass.contexts.back() + config.corpus.decode_steps - 1);
  }
  const double per_step = bytes_per_step(config, shape_of(config, tokenizer.vocab_size(), model));
  plan.trace_bytes = kCompressed * per_step * static_cast<double>(plan.steps);
  plan.peak_memory_bytes = peak_memory_bytes(config, tokenizer.vocab_size(), model);
  return plan;
}

Plan plan(const schemas::Config& config) {
  base::Progress silent;
  const auto weights = engine::open_weights(config.model.path, config.model.format);
  const auto tokenizer = engine::open_tokenizer(config.model.path, config.model.format);
  return plan_with(config, *tokenizer, weights->parameters(), silent);
}

}  // namespace dgap::collector
