#include "base/exp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"

namespace dgap::base {
namespace {

TEST(Exp, SingleIsWithinItsBoundOverTheWholeRange) {
  double worst = 0;
  for (float x = -87.2f; x < 88.6f; x += 0.00037f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_f32(x) - exact) / exact);
  }
  EXPECT_LT(worst, 1.5e-7);
}

TEST(Exp, DoubleIsWithinItsBoundOverTheWholeRange) {
  Random random(1);
  long double worst = 0;
  for (int i = 0; i < 400'000; ++i) {
    const double x = -707.0 + random.uniform() * 1416.0;
    const long double exact = std::exp(static_cast<long double>(x));
    worst = std::max(worst, std::abs(exp_f64(x) - exact) / exact);
  }
  EXPECT_LT(static_cast<double>(worst), 4e-16);
}

TEST(Exp, EndsOfTheRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-infinity), 0.0f);
  EXPECT_EQ(exp_f32(-100.0f), 0.0f);
  EXPECT_EQ(exp_f32(infinity), infinity);
  EXPECT_EQ(exp_f32(89.0f), infinity);
  EXPECT_TRUE(std::isnan(exp_f32(std::nanf(""))));
  EXPECT_EQ(exp_f64(0.0), 1.0);
  EXPECT_EQ(exp_f64(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(exp_f64(710.0), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(exp_f64(std::nan(""))));
}

TEST(Exp, IsMonotoneNearIntegers) {
  float previous = 0;
  for (float x = -20.0f; x < 20.0f; x += 0.0009765625f) {
    const float y = exp_f32(x);
    EXPECT_GE(y, previous) << x;
    previous = y;
  }
}

}  // namespace
}  // namespace dgap::base
