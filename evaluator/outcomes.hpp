#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "schemas/bundle/bundle.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/window.hpp"

/// What a bundle does to every step of a held-out trace.
namespace dgap::evaluator {

using Metrics = statistics::StepWindow::Metrics;

/// Window of the ceiling that does not depend on K_b: 64, less where the trace keeps fewer candidates.
int common_window(const schemas::TracePart& trace);

/// Draws of the noise controls, whose spread is reported.
inline constexpr int kNoiseSeeds = 3;

/// One step of one precision.
struct Outcome {
  Metrics quantized;     // as decoded
  Metrics restored;      // as the bundle serves it: detector, threshold, corrector
  Metrics always;        // every step corrected, whatever the risk
  Metrics oracle;        // the reference's shape and window mass: the ceiling of any window corrector
  Metrics oracle_common;  // the same over common_window() candidates, to compare precisions by
  // Controls (evaluator/controls.hpp).
  Metrics quantized_ranking, shift;
  Metrics oracle_raw;  // the reference's logits copied without aligning mass: a warning, no ceiling
  std::array<Metrics, kNoiseSeeds> noise, noise_resorted;
  // Windows of a size per step: the size, and what the same networks and the ceiling do over K_b.
  int window = 0;
  Metrics restored_fixed, oracle_fixed;
  double coverage_fixed = 0;
  double reference_nll = 0;
  double coverage = 0;  // c_t(K_b), arXiv:2607.16248 Eq. 7
  float risk = 0, escalation = 0;  // the detector's outputs
  bool corrected = false;
  bool escalated = false;  // left as it is, whatever the risk
  bool risky = false;      // y_t, Eq. 9
  bool uncovered = false;  // distorted and not covered
  bool covered = false;    // coverage >= rho_c
};

/// Outcomes of all steps of `trace` (one precision read, `precision` its index) under the bundle's entry,
/// through the runtime's own detector and corrector; `seed` is that of the noise controls. Parallel over steps; the same for any thread count.
std::vector<Outcome> outcomes(const schemas::TracePart& trace, std::size_t precision,
                              const schemas::PrecisionEntry& entry, const schemas::Tensors& tensors,
                              std::uint64_t seed);

}  // namespace dgap::evaluator
