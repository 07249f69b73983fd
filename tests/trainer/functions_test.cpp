#include "trainer/functions.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace dgap::trainer {
namespace {

TEST(Functions, ActivationHasTheBitsOfTheRuntime) {
  for (double x = -40.0; x <= 40.0; x += 0.00137) {
    const auto f = static_cast<float>(x);
    const Activation<float> a = activation(f);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a.value), std::bit_cast<std::uint32_t>(runtime::gelu(f)))
        << x;
  }
}

TEST(Functions, DerivativeOfActivationIsItsDifferenceQuotient) {
  for (double x = -12.0; x <= 12.0; x += 0.0719) {
    const double h = 1e-5;
    const double slope = (activation(x + h).value - activation(x - h).value) / (2 * h);
    ASSERT_NEAR(activation(x).derivative, slope, 1e-9) << x;
    // The rounding of 1 - s is multiplied by x d(2u)/dx, which reaches 30 where it matters.
    ASSERT_NEAR(activation(static_cast<float>(x)).derivative, slope, 3e-6) << x;
  }
}

TEST(Functions, DerivativeOfActivationIsFiniteFarOut) {
  for (const float x : {-1e30f, -1e10f, -100.0f, 100.0f, 1e10f, 1e30f}) {
    EXPECT_NEAR(activation(x).derivative, x > 0 ? 1.0f : 0.0f, 1e-30) << x;
  }
}

TEST(Functions, SoftplusAgainstTheLibrary) {
  for (double x = -60.0; x <= 60.0; x += 0.00713) {
    const auto f = static_cast<float>(x);
    const double exact = std::log1p(std::exp(-static_cast<double>(f)));
    const double slope = 1.0 / (1.0 + std::exp(static_cast<double>(f)));
    const Softplus<float> s = softplus_of_negative(f);
    ASSERT_NEAR(s.value / exact, 1.0, 4e-7) << x;  // exp 2e-7, polynomial 2e-7
    ASSERT_NEAR(s.slope / slope, 1.0, 4e-7) << x;
    const Softplus<double> d = softplus_of_negative(static_cast<double>(f));
    ASSERT_NEAR(d.value / exact, 1.0, 4e-15) << x;
    ASSERT_NEAR(d.slope / slope, 1.0, 4e-15) << x;
  }
}

TEST(Functions, SoftplusIsFiniteFarOut) {
  const Softplus<float> wrong = softplus_of_negative(-5000.0f);
  EXPECT_EQ(wrong.value, 5000.0f);
  EXPECT_EQ(wrong.slope, 1.0f);
  const Softplus<float> right = softplus_of_negative(5000.0f);
  EXPECT_LT(right.value, 1e-30f);
  EXPECT_LT(right.slope, 1e-30f);
}

}  // namespace
}  // namespace dgap::trainer
