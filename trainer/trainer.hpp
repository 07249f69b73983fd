#pragma once
#include "base/progress.hpp"
#include "schemas/config/config.hpp"

namespace dgap::trainer {

/// Trains detector and corrector of every precision on training traces, with early stopping on
/// validation traces. Writes, per precision P, <run>/detector/P.safetensors + P.json and
/// <run>/corrector/P.safetensors + P.json (schemas::NetworkInfo as JSON, losses per epoch). Resumes
/// precision by precision. Same bytes for any thread count.
void train(const schemas::Config& config, base::Progress& progress);

}  // namespace dgap::trainer
