#pragma once
#include "base/progress.hpp"
#include "schemas/config/config.hpp"

namespace dgap::evaluator {

/// Applies <run>/bundle/ through the runtime to the held-out traces, and to retrieval prompts on
/// the live model: <run>/evaluation.json.
void evaluate(const schemas::Config& config, base::Progress& progress);

/// <run>/report.html from windows.json, threshold.json and evaluation.json: one self-contained page.
void report(const schemas::Config& config, base::Progress& progress);

}  // namespace dgap::evaluator
