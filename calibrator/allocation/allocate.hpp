#pragma once
#include "base/progress.hpp"
#include "schemas/config/config.hpp"

namespace dgap::calibrator {

/// Chooses the bits of every layer, KV head and tensor for allocation.budget (docs/allocation.md):
/// <run>/sensitivity.json, allocation.json and allocation_results.json, each with a plot beside it.
/// Nothing where no allocation is wanted.
void allocate(const schemas::Config& config, base::Progress& progress);

}  // namespace dgap::calibrator
