#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/model/weights.hpp"
#include "schemas/config/config.hpp"

namespace dgap::collector {

/// What a collection takes at most, in bytes, from the configuration and the model's shape.
struct MemoryNeed {
  double weights = 0, exact_cache = 0, precision_caches = 0, logits = 0, part = 0, scratch = 0;
  double total() const {
    return weights + exact_cache + precision_caches + logits + part + scratch;
  }
};

/// With that many precisions decoded side by side. UsageError where a scheme does not fit the
/// model.
MemoryNeed memory_need(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                       const engine::HyperParameters& model, std::size_t at_once);

/// The precisions that are decoded side by side: all of them or, under model.memory_budget, as many
/// as fit, in groups as even as can be. UsageError, saying what takes how much, when not even one
/// fits.
std::size_t precisions_at_once(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                               const engine::HyperParameters& model);

}  // namespace dgap::collector
