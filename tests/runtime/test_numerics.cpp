#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "runtime/activation.hpp"

namespace dgap {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double relative_error(double value, long double exact) {
  return static_cast<double>(std::abs((static_cast<long double>(value) - exact) / exact));
}

TEST(Log, ErrorIsBelowOneUlpOverTheWholeRange) {
  base::Random random(7);
  double worst = 0.0;
  for (int i = 0; i < 200000; ++i) {
    const double exponent = random.uniform() * 2090.0 - 1070.0;  // subnormals too
    const double x = std::exp2(exponent);
    if (x == 1.0 || x == 0.0) continue;
    worst =
        std::max(worst, relative_error(base::log_f64(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 4e-16);
}

TEST(Log, KeepsRelativeErrorNearOne) {
  base::Random random(8);
  double worst = 0.0, worst_log1p = 0.0;
  for (int i = 0; i < 200000; ++i) {
    const double offset = (random.uniform() - 0.5) * std::exp2(-random.uniform() * 50.0);
    const double x = 1.0 + offset;
    if (x != 1.0) {
      worst =
          std::max(worst, relative_error(base::log_f64(x), std::log(static_cast<long double>(x))));
    }
    worst_log1p = std::max(
        worst_log1p,
        relative_error(base::log1p_f64(offset), std::log1p(static_cast<long double>(offset))));
  }
  EXPECT_LT(worst, 4e-16);
  EXPECT_LT(worst_log1p, 1e-15);
}

TEST(Log, SpecialValues) {
  EXPECT_EQ(base::log_f64(1.0), 0.0);
  EXPECT_EQ(base::log_f64(0.0), -kInfinity);
  EXPECT_EQ(base::log_f64(-0.0), -kInfinity);
  EXPECT_EQ(base::log_f64(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(base::log_f64(-1.0)));
  EXPECT_TRUE(std::isnan(base::log_f64(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(base::log1p_f64(-1.0), -kInfinity);
  EXPECT_EQ(base::log1p_f64(kInfinity), kInfinity);
  EXPECT_EQ(base::log1p_f64(1e-300), 1e-300);
  EXPECT_TRUE(std::isnan(base::log1p_f64(-2.0)));
  EXPECT_NEAR(base::log_f64(std::numeric_limits<double>::denorm_min()), -744.4400719213812, 1e-12);
}

TEST(Exp, InverseOfLog) {
  for (const double x : {1e-300, 1e-5, 0.3, 1.0, 17.0, 1e300}) {
    EXPECT_LT(relative_error(base::exp_f64(base::log_f64(x)), x), 3e-13) << x;
  }
}

TEST(Activation, GeluFollowsTheTanhForm) {
  for (float x = -12.0f; x <= 12.0f; x += 0.01f) {
    const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * std::pow(x, 3));
    const double exact = 0.5 * x * (1.0 + std::tanh(u));
    EXPECT_NEAR(runtime::gelu(x), exact, 1e-6 * std::max(1.0f, std::abs(x))) << x;
  }
}

TEST(Activation, ExpOfNonPositiveArguments) {
  for (float x = -87.0f; x <= 0.0f; x += 0.00013f) {
    EXPECT_LT(relative_error(runtime::exp_nonpositive(x), std::exp(static_cast<long double>(x))),
              2e-7)
        << x;
  }
  EXPECT_EQ(runtime::exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(runtime::exp_nonpositive(-1e30f), runtime::exp_nonpositive(-87.0f));
}

TEST(Activation, FarValuesStayFinite) {
  EXPECT_EQ(runtime::gelu(1e30f), 1e30f);
  EXPECT_NEAR(runtime::gelu(-1e30f), 0.0f, 1e-32);
  EXPECT_EQ(runtime::sigmoid(1e30f), 1.0f);
  EXPECT_EQ(runtime::sigmoid(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(runtime::gelu(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace dgap
