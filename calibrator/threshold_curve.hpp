#pragma once
#include <span>

#include "schemas/config/config.hpp"
#include "schemas/results/results.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {

/// One validation step: the detector's score, and its metrics untouched and corrected.
struct StepOutcome {
  float risk = 0;
  statistics::StepWindow::Metrics before, after;
};

/// The curve over tau and the tau that the policy chooses. A step is corrected iff risk > tau, so
/// steps of one score stand together: there is one threshold per distinct score, and it corrects
/// the steps above that score. Policy `tradeoff` maximises mean KL removed - cost x rate (ties: the
/// higher tau); it is `off` when no threshold gains anything. Policy `fixed` is `off` where the
/// corrector makes the mean KL worse. Scores are finite; there is at least one step.
schemas::ThresholdResult choose_threshold(std::span<const StepOutcome> steps,
                                          const schemas::ThresholdConfig& config);

}  // namespace dgap::calibrator
