#pragma once
#include "base/progress.hpp"
#include "collector/collect.hpp"
#include "engine/model/weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::collector {

/// What a collection takes at most, from the configuration and the model's shape: weights, caches,
/// blocks of logits, and one part of the trace.
double peak_memory_bytes(const schemas::Config& config, std::int64_t tokenizer_vocabulary,
                         const engine::HyperParameters& model);

/// plan() for any tokenizer and model.
Plan plan_with(const schemas::Config& config, const engine::Tokenizer& tokenizer,
               const engine::HyperParameters& model, base::Progress& progress);

}  // namespace dgap::collector
