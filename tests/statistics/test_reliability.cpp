#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "statistics/reliability.hpp"

namespace dgap::statistics {
namespace {

TEST(Reliability, ComparesScoresWithFrequencies) {
  const std::vector<float> scores = {0.0f, 0.01f, 0.5f, 0.5f, 0.5f, 1.0f};
  const std::vector<std::uint8_t> labels = {0, 1, 1, 1, 0, 1};
  const Reliability r = reliability(scores, labels);
  EXPECT_EQ(r.count[0], 2);
  EXPECT_EQ(r.count[7], 3);
  EXPECT_EQ(r.count[14], 1);  // a score of 1 is in the last bin
  EXPECT_NEAR(r.frequency[7], 2.0 / 3.0, 1e-15);
  EXPECT_NEAR(r.score[0], 0.005, 1e-9);
  EXPECT_TRUE(std::isnan(r.score[3]));
  EXPECT_NEAR(r.error, (2 * 0.495 + 3 * std::fabs(0.5 - 2.0 / 3.0) + 0.0) / 6.0, 1e-8);
}

TEST(Reliability, IsSmallForTrueProbabilitiesAndLargeForOthers) {
  base::Random random(1);
  std::vector<float> honest, bold;
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 20000; ++i) {
    const double p = random.uniform();
    honest.push_back(static_cast<float>(p));
    bold.push_back(p > 0.5 ? 0.99f : 0.01f);
    labels.push_back(random.uniform() < p ? 1 : 0);
  }
  EXPECT_LT(reliability(honest, labels).error, 0.02);
  EXPECT_NEAR(reliability(bold, labels).error, 0.24, 0.02);
  EXPECT_EQ(reliability({}, {}).error, 0.0);
}

}  // namespace
}  // namespace dgap::statistics
