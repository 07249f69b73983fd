#include "engine/cache/codebooks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

namespace dgap::engine {
namespace {

/// Positive halves of the tables for the exact density, times sqrt(width), four digits.
TEST(SphereCentroids, EqualThePublishedLevels) {
  struct Row {
    int width, bits;
    std::vector<double> levels;
  };
  const std::vector<Row> rows = {
      {128, 1, {0.7994}},
      {128, 2, {0.4525, 1.5052}},
      {128, 3, {0.2444, 0.7533, 1.3366, 2.1315}},
      {128, 4, {0.1279, 0.3864, 0.6536, 0.9371, 1.2478, 1.6043, 2.0459, 2.6889}},
      {64, 1, {0.8010}},
      {64, 2, {0.4521, 1.5000}},
      {64, 3, {0.2438, 0.7507, 1.3293, 2.1113}},
      {64, 4, {0.1274, 0.3847, 0.6505, 0.9319, 1.2394, 1.5908, 2.0233, 2.6464}}};
  for (const Row& row : rows) {
    const std::vector<double> levels = sphere_centroids(row.bits, row.width);
    ASSERT_EQ(levels.size(), std::size_t{1} << row.bits);
    for (std::size_t k = 0; k < row.levels.size(); ++k) {
      EXPECT_NEAR(levels[row.levels.size() + k] * std::sqrt(row.width), row.levels[k], 5.1e-5);
      EXPECT_EQ(levels[row.levels.size() - 1 - k], -levels[row.levels.size() + k]);
    }
  }
}

/// One bit: E|y| = Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2)).
TEST(SphereCentroids, OneBitIsTheMeanMagnitude) {
  for (const int d : {8, 16, 48, 64, 80, 96, 127, 128, 256, 512}) {
    const double expected =
        std::exp(std::lgamma(d / 2.0) - std::lgamma((d + 1) / 2.0)) / std::sqrt(std::numbers::pi);
    EXPECT_NEAR(sphere_centroids(1, d)[1], expected, 1e-12) << d;
  }
}

/// A fixed point of Lloyd's iteration, by quadrature of the density on a fine grid.
TEST(SphereCentroids, EveryLevelIsItsCellsMean) {
  for (const int d : {16, 48, 96, 128})
    for (const int bits : {2, 3, 4}) {
      const std::vector<double> levels = sphere_centroids(bits, d);
      for (std::size_t k = 0; k < levels.size(); ++k) {
        const double low = k == 0 ? -1.0 : (levels[k - 1] + levels[k]) / 2,
                     high = k + 1 == levels.size() ? 1.0 : (levels[k] + levels[k + 1]) / 2;
        constexpr int kPoints = 20000;  // Simpson's rule
        double mass = 0, moment = 0;
        for (int i = 0; i <= kPoints; ++i) {
          const double y = low + (high - low) * i / kPoints;
          const double weight = (i == 0 || i == kPoints ? 1
                                 : i % 2 == 1           ? 4
                                                        : 2) *
                                std::pow(1 - y * y, (d - 3) / 2.0);
          mass += weight, moment += weight * y;
        }
        EXPECT_NEAR(levels[k], moment / mass, 1e-12) << d << " " << bits << " " << k;
      }
    }
}

}  // namespace
}  // namespace dgap::engine
