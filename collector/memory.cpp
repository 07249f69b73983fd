#include "collector/memory.hpp"

#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "collector/calibration.hpp"
#include "collector/paired_block.hpp"
#include "collector/settings.hpp"
#include "collector/trace_size.hpp"
#include "engine/backend/cpu/cpu_decoder.hpp"
#include "engine/cache/codec.hpp"

namespace dgap::collector {
namespace {

std::int64_t longest_context(const schemas::Config& config) {
  const std::int64_t books = std::ranges::max(config.corpus.context_lengths);
  const schemas::RetrievalCorpusConfig& retrieval = config.corpus.retrieval;
  return retrieval.prompts() > 0 ? std::max<std::int64_t>(books, retrieval.context) : books;
}

double bytes_of_weight(const schemas::Config& config) {
  const auto compute = engine::resolve_compute(config.model.compute, engine::detected_isa());
  return compute == engine::Compute::bf16 ? 2.0 : 4.0;
}

/// Of one token of one head: codes and scales, or FP16.
double bytes_per_token(const schemas::TensorScheme& tensor, int head_dim, std::uint64_t seed) {
  const auto codec = engine::make_codec(tensor, head_dim, seed);
  if (codec == nullptr) return 2.0 * head_dim;
  const engine::Codec::Layout& layout = codec->layout();
  return static_cast<double>(layout.row_bytes) +
         2.0 * static_cast<double>(layout.scales + layout.minima) / layout.step;
}

/// A scheme's own cache of `context` prefix tokens, the steps and, where there is one, the window.
/// What is exact in the prefix lies in the exact cache, which a fork shares.
double cache_bytes(const schemas::Scheme& scheme, const engine::HyperParameters& p,
                   std::int64_t context, std::int64_t steps) {
  const bool shares = scheme.prefill == schemas::PrefillMode::exact;
  const auto tensor_bytes = [&](const schemas::TensorScheme& tensor) {
    const bool exact = tensor.quantizer == schemas::Quantizer::exact;
    const std::int64_t codes = exact && shares ? 0 : context;
    return static_cast<double>(codes + steps) *
               bytes_per_token(tensor, p.head_dim, scheme.rotation_seed) +
           2.0 * p.head_dim * static_cast<double>(scheme.residual_window + steps);
  };
  double bytes = 0.0;
  for (int i = 0; i < p.layers * p.kv_heads; ++i) {
    const schemas::HeadScheme head = head_scheme(scheme, p.layers, i / p.kv_heads, i % p.kv_heads);
    bytes += tensor_bytes(head.key) + tensor_bytes(head.value);
  }
  return bytes;
}

/// The largest sum over `at_once` consecutive precisions, as they are grouped.
double caches_at_once(const schemas::Config& config, const engine::HyperParameters& model,
                      std::size_t at_once) {
  std::map<std::size_t, double> groups;
  for (std::size_t p = 0; p < config.precisions.size(); ++p) {
    groups[p / at_once] += cache_bytes(config.precisions[p], model, longest_context(config),
                                       config.corpus.decode_steps);
  }
  double most = 0.0;
  for (const auto& [group, bytes] : groups) most = std::max(most, bytes);
  return most;
}

/// FP16 keys and values, keys before RoPE where a fork starts from them, and the rows of a
/// reference decode that is repeated for a later group.
double exact_cache_bytes(const schemas::Config& config, const engine::HyperParameters& p) {
  const bool keep_pre_rope = std::ranges::any_of(config.precisions, [](const auto& scheme) {
    return scheme.prefill == schemas::PrefillMode::exact && scheme.key_before_rope;
  });
  const auto tokens = static_cast<double>(longest_context(config) + 2 * config.corpus.decode_steps);
  return tokens * p.layers * p.kv_heads * p.head_dim * (keep_pre_rope ? 6.0 : 4.0);
}

/// Exact caches of all calibration windows, keys before RoPE included, which are there together
/// before any text is collected.
double calibration_bytes(const schemas::Config& config, const engine::HyperParameters& p) {
  if (!std::ranges::any_of(config.precisions, schemas::needs_calibration)) return 0.0;
  const auto tokens = static_cast<double>(
      config.calibration.windows * calibration_tokens(config, p.hidden_size, p.context_length));
  return tokens * p.layers * p.kv_heads * p.head_dim * 6.0;
}

/// Activations and attention of a block of 512 rows, a group of logits, and every decode's RoPE
/// table (engine/backend/cpu).
double scratch_bytes(const schemas::Config& config, const engine::HyperParameters& p,
                     std::size_t at_once) {
  constexpr double kRows = 512.0, kLogits = 64.0 * (1 << 20);
  const double queries = static_cast<double>(p.heads) * p.head_dim;
  const double keys = static_cast<double>(p.kv_heads) * p.head_dim;
  const double floats = 3.0 * static_cast<double>(p.hidden_size) + 6.0 * queries + 2.0 * keys +
                        static_cast<double>(p.intermediate_size);
  const auto tokens = static_cast<double>(longest_context(config) + config.corpus.decode_steps);
  return 4.0 * kRows * floats + kLogits +
         static_cast<double>(at_once + 3) * tokens * 4.0 * p.head_dim;
}

std::string megabytes(double bytes) { return std::to_string(std::llround(bytes / 1e6)) + " MB"; }

[[noreturn]] void refuse(const schemas::Config& config, const MemoryNeed& need) {
  throw base::UsageError(
      "model.memory_budget: " + megabytes(static_cast<double>(config.model.memory_budget)) +
      " are too little: collecting one precision at a time takes about " + megabytes(need.total()) +
      " (weights " + megabytes(need.weights) + ", exact cache " + megabytes(need.exact_cache) +
      ", its own cache " + megabytes(need.precision_caches) + ", blocks of logits " +
      megabytes(need.logits) + ", a part of the trace " + megabytes(need.part) + ", scratch " +
      megabytes(need.scratch) +
      "); raise it, or lower decode.block, trace.units_per_part or corpus.context_lengths");
}

}  // namespace

MemoryNeed memory_need(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                       const engine::HyperParameters& model, std::size_t at_once) {
  for (const schemas::Scheme& scheme : config.precisions)
    schemas::validate(scheme, {model.head_dim, model.layers, model.kv_heads});
  BlockShape shape = block_shape(config, real_vocabulary(tokenizer_vocabulary, model.vocab_size),
                                 model.vocab_size, model.hidden_size);
  MemoryNeed need;
  need.weights = static_cast<double>(engine::parameter_count(model)) * bytes_of_weight(config);
  need.exact_cache = std::max(exact_cache_bytes(config, model), calibration_bytes(config, model));
  need.precision_caches = caches_at_once(config, model, at_once);
  need.part = part_bytes(config, shape);
  shape.precisions = at_once;
  const int threads =
      config.run.threads > 0 ? config.run.threads : tbb::this_task_arena::max_concurrency();
  need.logits = PairedBlock::bytes(shape, threads);
  need.scratch = scratch_bytes(config, model, at_once);
  return need;
}

std::size_t precisions_at_once(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                               const engine::HyperParameters& model) {
  const std::size_t all = config.precisions.size();
  if (config.model.memory_budget == 0) return all;
  const auto budget = static_cast<double>(config.model.memory_budget);
  for (std::size_t groups = 1, last = 0; groups <= all; ++groups) {
    const std::size_t at_once = (all + groups - 1) / groups;
    if (at_once == std::exchange(last, at_once)) continue;
    if (memory_need(config, tokenizer_vocabulary, model, at_once).total() <= budget) return at_once;
  }
  refuse(config, memory_need(config, tokenizer_vocabulary, model, 1));
}

}  // namespace dgap::collector
