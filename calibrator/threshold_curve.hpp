#pragma once
#include <span>

#include "schemas/config/config.hpp"
#include "schemas/results/results.hpp"
#include "statistics/resampling.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {

/// One validation step: the detector's scores, and its metrics untouched and corrected.
struct StepOutcome {
  float risk = 0;
  float escalation = 0;    // the second output; 0 where there is none
  bool uncovered = false;  // distorted, and beyond the window's reach
  bool escalated = false;  // left as it is, whatever the risk
  statistics::StepWindow::Metrics before, after;
};

/// The lowest threshold of the second output whose escalated steps (score above it) are distorted
/// and uncovered in at least the share `precision`; 1, which escalates nothing, where there is
/// none.
schemas::Escalation choose_escalation(std::span<const StepOutcome> steps, double precision);

/// The curve over tau and the tau that the policy chooses. A step is corrected iff risk > tau, so
/// steps of one score stand together: there is one threshold per distinct score, and it corrects
/// the steps above that score. Of equals the higher tau. Policies: `fixed`; `budget`, the most KL
/// removed at a rate of at most `budget`; `target`, the least rate whose drift is at most `target`
/// (the least drift where none is); `tradeoff`, the most mean KL removed - cost x rate. The mode is
/// `off` where no threshold gains anything, or where the corrector makes the mean KL worse.
///
/// With threshold.worse_share only thresholds are considered for which the share of a book's steps
/// made worse is below it with probability worse_confidence: fixed-sequence testing from tau = 1
/// down with Hoeffding-Bentkus p-values (arXiv:2110.01052); since that share only grows as tau
/// falls, all of them hold at once. `books` are the clusters of `steps`; none of this is given when
/// they are approximate. Scores are finite; there is at least one step.
schemas::ThresholdResult choose_threshold(std::span<const StepOutcome> steps,
                                          const schemas::ThresholdConfig& config,
                                          const statistics::Clusters& books = {{}, 0, true});

}  // namespace dgap::calibrator
