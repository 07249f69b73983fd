#pragma once
#include "base/progress.hpp"
#include "collector/collect.hpp"
#include "engine/model/weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::collector {

/// plan() for any tokenizer and model.
Plan plan_with(const schemas::Config& config, const engine::Tokenizer& tokenizer,
               const engine::HyperParameters& model, base::Progress& progress);

}  // namespace dgap::collector
