#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/adaptive_window.hpp"

namespace dgap::runtime {
namespace {

TEST(AdaptiveWindow, StopsWhereTheMassIsHeld) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.125f)};
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.0), 1);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.49), 1);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.51), 2);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.74), 2);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.87), 3);
  EXPECT_EQ(adaptive_window(logits, 0.0, 0.99), 3);  // they hold less: all of them
  EXPECT_EQ(adaptive_window(logits, 0.0, 1.0), 3);
  EXPECT_EQ(adaptive_window({logits.data(), 1}, 0.0, 1.0), 1);
}

}  // namespace
}  // namespace dgap::runtime
