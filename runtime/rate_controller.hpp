#pragma once
#include <cstdint>

namespace dgap::runtime {

/// Holds the share of corrected rows of one sequence near a budget by moving tau within bounds:
/// after every row tau += step x ([corrected] - rate), as adaptive conformal inference does
/// (arXiv:2106.00404). While no bound is touched, the share over n rows differs from `rate` by at
/// most (high - low) / (step x n), whatever the risks are.
class RateController {
 public:
  /// rate, low <= high and the initial tau in [0, 1], step > 0.
  RateController(double tau, double rate, double step, double low, double high);

  /// The threshold of the next row.
  double tau() const { return tau_; }
  void observe(bool corrected);

 private:
  double tau_, rate_, step_, low_, high_;
};

}  // namespace dgap::runtime
