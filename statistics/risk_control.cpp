#include "statistics/risk_control.hpp"

#include <algorithm>
#include <cmath>

#include "base/exp.hpp"
#include "base/log.hpp"

namespace dgap::statistics {
namespace {

/// x log(x / y), 0 for x = 0.
double entropy_term(double x, double y) { return x > 0.0 ? x * base::log_f64(x / y) : 0.0; }

/// P[Bin(count, p) <= successes], p in (0, 1); terms by their logarithms, so that none underflows
/// before the last.
double binomial_cdf(std::int64_t successes, std::int64_t count, double p) {
  const double log_odds = base::log_f64(p / (1.0 - p));
  double log_term = static_cast<double>(count) * base::log1p_f64(-p), sum = 0.0;
  for (std::int64_t k = 0; k <= std::min(successes, count); ++k) {
    sum += base::exp_f64(log_term);
    log_term += log_odds + base::log_f64(static_cast<double>(count - k) / static_cast<double>(k + 1));
  }
  return std::min(sum, 1.0);
}

}  // namespace

double hoeffding_bentkus(double mean, std::int64_t count, double limit) {
  const auto n = static_cast<double>(count);
  const double below = std::min(mean, limit);
  const double divergence = entropy_term(below, limit) + entropy_term(1.0 - below, 1.0 - limit);
  const double hoeffding = base::exp_f64(-n * divergence);
  // ceil(n mean), where the mean is itself a sum with rounding errors.
  const auto successes = static_cast<std::int64_t>(std::ceil(n * mean - 1e-9));
  constexpr double kE = 2.718281828459045;
  return std::min({hoeffding, kE * binomial_cdf(successes, count, limit), 1.0});
}

double upper_bound(double mean, std::int64_t count, double delta) {
  double low = std::max(mean, 0.0), high = 1.0;
  while (high - low > 1e-9) {
    const double middle = 0.5 * (low + high);
    (hoeffding_bentkus(mean, count, middle) <= delta ? high : low) = middle;
  }
  return high;
}

}  // namespace dgap::statistics
