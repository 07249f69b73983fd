#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "statistics/risk_control.hpp"

namespace dgap::statistics {
namespace {

double binomial_cdf(int successes, int n, double p) {
  double sum = 0.0;
  for (int k = 0; k <= successes; ++k) {
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                    k * std::log(p) + (n - k) * std::log1p(-p));
  }
  return sum;
}

TEST(HoeffdingBentkus, IsTheSmallerOfTheTwoBounds) {
  for (const int n : {1, 20, 300, 5000}) {
    for (const double mean : {0.0, 0.02, 0.25, 0.9}) {
      for (const double limit : {0.01, 0.1, 0.3, 0.95}) {
        const double a = std::min(mean, limit);
        const double h = (a > 0 ? a * std::log(a / limit) : 0) +
                         (a < 1 ? (1 - a) * std::log((1 - a) / (1 - limit)) : 0);
        const int successes = static_cast<int>(std::ceil(n * mean - 1e-9));
        const double bentkus = std::exp(1.0) * binomial_cdf(successes, n, limit);
        const double expected = std::min({std::exp(-n * h), bentkus, 1.0});
        EXPECT_NEAR(hoeffding_bentkus(mean, n, limit), expected, 1e-9 * expected + 1e-15)
            << n << " " << mean << " " << limit;
      }
    }
  }
}

TEST(HoeffdingBentkus, GrowsWithTheMeanAndFallsWithTheLimit) {
  double last = 0.0;
  for (int i = 0; i <= 40; ++i) {
    const double p = hoeffding_bentkus(i / 40.0, 40, 0.3);
    EXPECT_GE(p, last);
    last = p;
  }
  EXPECT_EQ(last, 1.0);
  for (int i = 1; i < 40; ++i) {
    const double p = hoeffding_bentkus(0.1, 40, i / 40.0);
    EXPECT_LE(p, last + 1e-15);
    last = p;
  }
}

TEST(UpperBound, IsWhereThePValueMeetsDelta) {
  EXPECT_NEAR(upper_bound(0.0, 20, 0.1), 1.0 - std::pow(0.1, 1.0 / 20), 1e-8);
  for (const double mean : {0.0, 0.07, 0.5}) {
    const double bound = upper_bound(mean, 50, 0.1);
    EXPECT_GT(bound, mean);
    EXPECT_LE(hoeffding_bentkus(mean, 50, bound), 0.1);
    EXPECT_GT(hoeffding_bentkus(mean, 50, bound - 1e-6), 0.1);
    EXPECT_LT(upper_bound(mean, 500, 0.1), bound);
  }
  EXPECT_EQ(upper_bound(1.0, 20, 0.1), 1.0);
}

/// The bound is above the expected loss at least as often as it says, also where that is hardest:
/// losses of 0 and 1 alone.
TEST(UpperBound, HoldsAsOftenAsItSays) {
  base::Random random(3);
  constexpr int kRuns = 4000, kBooks = 25;
  for (const double expected : {0.05, 0.3}) {
    int missed = 0;
    for (int run = 0; run < kRuns; ++run) {
      double sum = 0.0;
      for (int book = 0; book < kBooks; ++book) sum += random.uniform() < expected ? 1.0 : 0.0;
      missed += upper_bound(sum / kBooks, kBooks, 0.2) < expected ? 1 : 0;
    }
    EXPECT_LE(missed, 0.2 * kRuns + 3 * std::sqrt(0.2 * 0.8 * kRuns));
  }
}

}  // namespace
}  // namespace dgap::statistics
