#include "trainer/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace dgap::trainer {
namespace {

TEST(AdamW, FirstUpdatesAsDefined) {
  std::vector<float> p = {1.0f, -2.0f};
  AdamW optimiser({1.0f, 0.0f}, 0.1);  // the second is a bias
  double m0 = 0, v0 = 0, m1 = 0, v1 = 0, p0 = 1, p1 = -2;
  for (int t = 1; t <= 5; ++t) {
    const std::vector<float> g = {0.5f * static_cast<float>(t), -1e-3f};
    optimiser.step(p, g, 0.01);
    m0 = 0.9 * m0 + 0.1 * g[0], v0 = 0.999 * v0 + 0.001 * g[0] * g[0];
    m1 = 0.9 * m1 + 0.1 * g[1], v1 = 0.999 * v1 + 0.001 * g[1] * g[1];
    const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.999, t);
    p0 = p0 * (1 - 0.01 * 0.1) - 0.01 * (m0 / c1) / (std::sqrt(v0 / c2) + 1e-8);
    p1 = p1 - 0.01 * (m1 / c1) / (std::sqrt(v1 / c2) + 1e-8);
    EXPECT_NEAR(p[0], p0, 2e-7);
    EXPECT_NEAR(p[1], p1, 4e-7);
  }
}

TEST(AdamW, DecaysWithoutAGradient) {
  std::vector<float> p = {1.0f, 1.0f};
  AdamW optimiser({1.0f, 0.0f}, 0.5);
  optimiser.step(p, std::vector<float>{0.0f, 0.0f}, 0.1);
  EXPECT_FLOAT_EQ(p[0], 0.95f);
  EXPECT_EQ(p[1], 1.0f);
}

TEST(Clip, ScalesToTheLimitOnly) {
  std::vector<float> g(35, 2.0f);
  EXPECT_NEAR(norm(g), 2.0 * std::sqrt(35.0), 1e-12);
  clip(g, norm(g), 1.0);
  EXPECT_NEAR(norm(g), 1.0, 1e-6);
  const std::vector<float> before = g;
  clip(g, norm(g), 2.0);
  EXPECT_EQ(g, before);
}

TEST(Schedule, WarmsUpAndFollowsTheCosine) {
  const std::int64_t updates = 400;
  EXPECT_DOUBLE_EQ(scheduled_rate(2.0, 0, updates), 2.0 / 20);
  EXPECT_DOUBLE_EQ(scheduled_rate(2.0, 19, updates), 2.0);
  for (std::int64_t u = 20; u < updates; ++u) {
    const double done = static_cast<double>(u - 20) / 380.0;
    EXPECT_NEAR(scheduled_rate(2.0, u, updates), 1.0 + std::cos(std::numbers::pi * done), 1e-12);
  }
  EXPECT_GT(scheduled_rate(1.0, 0, 1), 0.0);
}

}  // namespace
}  // namespace dgap::trainer
