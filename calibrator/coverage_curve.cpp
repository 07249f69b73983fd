#include "calibrator/coverage_curve.hpp"

#include <limits>

#include "statistics/window.hpp"

namespace dgap::calibrator {

void CoverageCurve::add(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                        double alpha) {
  const std::span<const double> candidates =
      statistics::candidate_probabilities(trace, step, alpha, scratch_);
  const std::int64_t first = trace.reference.candidate_first[step];
  const schemas::PrecisionColumns& columns = trace.columns[precision];
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto rank = static_cast<std::size_t>(columns.candidate_ranks[first + i]);
    total_mass_ += candidates[i];
    if (rank < mass_at_rank_.size() && columns.candidate_logits[first + i] > kMasked) {
      mass_at_rank_[rank] += candidates[i];
    }
  }
  ++steps_;
}

std::vector<double> CoverageCurve::coverage() const {
  std::vector<double> curve;
  double mass = 0.0;
  for (const double here : mass_at_rank_) {
    mass += here;
    curve.push_back(mass / static_cast<double>(steps_));
  }
  return curve;
}

}  // namespace dgap::calibrator
