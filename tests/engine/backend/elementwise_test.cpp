#include "engine/backend/cpu/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"

namespace dgap::engine {
namespace {

std::vector<float> normals(std::size_t count, double scale) {
  base::Random random(5);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(scale * random.normal());
  return values;
}

TEST(RmsNorm, EqualsTheFormulaInF64) {
  for (const std::size_t n : {1u, 15u, 16u, 17u, 576u}) {
    const std::vector<float> x = normals(n, 3.0), weight = normals(n, 1.0);
    std::vector<float> out(n);
    rms_norm(static_cast<std::int64_t>(n), x.data(), weight.data(), 1e-5f, out.data());
    double squares = 0;
    for (const float v : x) squares += double{v} * v;
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i];
      EXPECT_NEAR(out[i], expected, 1e-5 * std::abs(expected));  // n / 16 + 7 roundings of 6e-8
    }
  }
}

TEST(RmsNorm, KeepsZeros) {
  const std::vector<float> x(32, 0.0f), weight(32, 1.0f);
  std::vector<float> out(32, 1.0f);
  rms_norm(32, x.data(), weight.data(), 1e-5f, out.data());
  EXPECT_EQ(out, x);
}

TEST(Swiglu, EqualsTheFormulaInF64) {
  constexpr std::size_t kRows = 9;
  std::vector<float> values = normals(kRows * 32, 10.0);
  values[0] = -200.0f, values[1] = 200.0f, values[2] = 0.0f;
  const std::vector<float> before = values;
  swiglu(kRows, values.data());
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t u = 0; u < 16; ++u) {
      const double gate = before[r * 32 + u], up = before[r * 32 + 16 + u];
      const double expected = gate / (1.0 + std::exp(-gate)) * up;
      EXPECT_NEAR(values[r * 32 + u], expected, 1e-6 * std::abs(expected) + 1e-30);
    }
}

TEST(AllFinite, SeesEveryValue) {
  std::vector<float> x = normals(4 * 40, 1.0);
  EXPECT_TRUE(all_finite(4, 40, x.data(), 40));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {0u, 39u, 40u, 159u}) {
      std::vector<float> y = x;
      y[at] = bad;
      EXPECT_FALSE(all_finite(4, 40, y.data(), 40));
    }
  }
  x[35] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(all_finite(4, 30, x.data(), 40));  // outside the columns
}

}  // namespace
}  // namespace dgap::engine
