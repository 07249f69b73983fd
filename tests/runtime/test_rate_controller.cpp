#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "runtime/rate_controller.hpp"

namespace dgap::runtime {
namespace {

/// |rate over n rows - budget| <= (high - low) / (step n) while no bound is touched; risks that
/// drift, to which a fixed threshold would answer with any rate.
TEST(RateController, HoldsTheRateWhateverTheRisks) {
  for (const double rate : {0.1, 0.3, 0.7}) {
    constexpr double kStep = 0.02;
    constexpr int kRows = 4000;
    RateController controller(0.5, rate, kStep, 0.0, 1.0);
    base::Random random(1);
    int corrected = 0, fixed = 0;
    bool touched = false;
    for (int row = 0; row < kRows; ++row) {
      const double risk = 0.1 + 0.5 * row / kRows + 0.3 * random.uniform();
      const bool restore = risk > controller.tau();
      fixed += risk > 0.5;
      corrected += restore;
      controller.observe(restore);
      touched |= controller.tau() == 0.0 || controller.tau() == 1.0;
    }
    EXPECT_FALSE(touched);
    EXPECT_LE(std::fabs(static_cast<double>(corrected) / kRows - rate), 1.0 / (kStep * kRows));
    if (rate != 0.3) {
      EXPECT_GT(std::fabs(static_cast<double>(fixed) / kRows - rate), 0.05);
    }
  }
}

TEST(RateController, KeepsToItsBounds) {
  RateController controller(0.9, 0.5, 0.3, 0.4, 0.6);
  EXPECT_EQ(controller.tau(), 0.6);  // the initial one too
  for (int i = 0; i < 5; ++i) controller.observe(true);
  EXPECT_EQ(controller.tau(), 0.6);
  for (int i = 0; i < 5; ++i) controller.observe(false);
  EXPECT_EQ(controller.tau(), 0.4);
  controller.observe(true);
  EXPECT_DOUBLE_EQ(controller.tau(), 0.55);
}

}  // namespace
}  // namespace dgap::runtime
