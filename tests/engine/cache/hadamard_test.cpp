#include "engine/cache/hadamard.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dgap::engine {
namespace {

TEST(Rotation, IsTheSylvesterMatrixTimesSigns) {
  for (const int width : {1, 2, 8, 64, 128, 512}) {
    const HadamardRotation rotation(width, 3);
    const auto n = static_cast<std::size_t>(width);
    base::Random random(1, "x");
    std::vector<float> x(2 * n);
    for (float& v : x) v = static_cast<float>(random.normal());
    std::vector<float> y = x;
    rotation.apply(2, y.data());
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t i = 0; i < n; ++i) {
        double expected = 0;
        for (std::size_t j = 0; j < n; ++j)
          expected += (std::popcount(i & j) % 2 == 0 ? 1 : -1) *
                      static_cast<double>(rotation.signs()[j]) * static_cast<double>(x[r * n + j]);
        // log2(width) roundings of sums whose size stays below sqrt(width) * |x|, |x| < 5
        ASSERT_NEAR(y[r * n + i], expected / std::sqrt(width), 5e-6) << width;
      }
    rotation.undo(2, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], x[i], 1e-5) << width;
  }
}

TEST(Rotation, SignsDependOnTheSeedAlone) {
  const HadamardRotation a(128, 0), b(128, 0), c(128, 1);
  EXPECT_TRUE(std::equal(a.signs().begin(), a.signs().end(), b.signs().begin()));
  EXPECT_FALSE(std::equal(a.signs().begin(), a.signs().end(), c.signs().begin()));
  int negative = 0;
  for (const float s : a.signs()) negative += s < 0;
  EXPECT_GT(negative, 32);
  EXPECT_LT(negative, 96);
}

TEST(Rotation, OtherWidthsAreRefused) {
  for (const int width : {0, -4, 80, 1024})
    EXPECT_THROW(HadamardRotation(width, 0), base::FailedError) << width;
}

}  // namespace
}  // namespace dgap::engine
