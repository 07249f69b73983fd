#pragma once
#include <cstdint>
#include <vector>

#include "schemas/trace/trace.hpp"

namespace dgap::calibrator {

/// Mean coverage of windows of every size in one pass (arXiv:2607.16248 Eq. 4): only the quantised
/// ranks of the tokens of C_t(alpha) matter.
class CoverageCurve {
 public:
  explicit CoverageCurve(int cap) : mass_at_rank_(cap) {}

  void add(const schemas::TracePart& trace, std::size_t precision, std::int64_t step, double alpha);

  /// E c_t(K) for K = 1 .. cap; NaN before the first step.
  std::vector<double> coverage() const;
  /// E[mass of C_t(alpha)]: what no K can exceed.
  double reachable() const { return total_mass_ / static_cast<double>(steps_); }

 private:
  std::vector<double> mass_at_rank_;  // p_fp of candidates of that 0-based quantised rank
  double total_mass_ = 0.0;
  std::int64_t steps_ = 0;
  std::vector<double> scratch_;
};

}  // namespace dgap::calibrator
