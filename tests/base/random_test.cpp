#include "base/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dgap::base {
namespace {

// Fixed by the algorithms, not by this library's implementation: any platform must print these.
TEST(Random, PermutationIsFixed) {
  EXPECT_EQ(Random(5489).bits(), 14514284786278117030ull);  // mt19937_64's documented first output
  EXPECT_THAT(Random(7).permutation(10), testing::ElementsAreArray(Random(7).permutation(10)));
  EXPECT_THAT(Random(7).permutation(8), testing::ElementsAre(2, 3, 5, 6, 1, 0, 4, 7));
}

TEST(Random, StreamsOfDifferentPurposesDiffer) {
  EXPECT_NE(Random(1, "a").bits(), Random(1, "b").bits());
  EXPECT_NE(Random(1, "a").bits(), Random(2, "a").bits());
  EXPECT_EQ(Random(1, "a").bits(), Random(1, "a").bits());
}

TEST(Random, BelowIsUniform) {
  Random random(11);
  std::vector<int> count(7);
  for (int i = 0; i < 70'000; ++i) ++count[random.below(7)];
  for (const int c : count) EXPECT_NEAR(c, 10'000, 5 * std::sqrt(10'000.0 * 6 / 7));
}

TEST(Random, NormalHasUnitMoments) {
  Random random(12);
  const int n = 200'000;
  double sum = 0, square = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x, square += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2.0 / n));
}

}  // namespace
}  // namespace dgap::base
