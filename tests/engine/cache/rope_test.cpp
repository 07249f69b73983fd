#include "engine/cache/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dgap::engine {
namespace {

std::vector<float> normal(std::size_t n) {
  base::Random random(n, "rope");
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.normal());
  return x;
}

/// The documented formula in f64.
std::vector<double> rotated(const float* x, int head_dim, double theta, std::int64_t position) {
  const int half = head_dim / 2;
  std::vector<double> out(static_cast<std::size_t>(head_dim));
  for (int i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * std::pow(theta, -2.0 * i / head_dim);
    const double a = x[i], b = x[i + half];
    out[static_cast<std::size_t>(i)] = a * std::cos(angle) - b * std::sin(angle);
    out[static_cast<std::size_t>(i + half)] = b * std::cos(angle) + a * std::sin(angle);
  }
  return out;
}

TEST(Rope, MatchesTheFormulaAtEveryHeadDim) {
  for (const int head_dim : {2, 10, 48, 64, 80, 128}) {
    RopeTable rope(head_dim, 10000.0, 3000);
    const std::vector<float> x = normal(static_cast<std::size_t>(3 * head_dim));
    for (const std::int64_t position : {0, 1, 2997}) {
      std::vector<float> y = x;
      rope.apply(position, 3, 1, y.data());
      for (int t = 0; t < 3; ++t) {
        const auto expected = rotated(x.data() + t * head_dim, head_dim, 10000.0, position + t);
        for (int c = 0; c < head_dim; ++c)  // |x| < 6: two products and a sum, each within 2^-24
          ASSERT_NEAR(y[static_cast<std::size_t>(t * head_dim + c)],
                      expected[static_cast<std::size_t>(c)], 2e-6);
      }
    }
  }
}

TEST(Rope, AllFormsAgree) {
  for (const int head_dim : {10, 48, 64}) {
    const auto width = static_cast<std::size_t>(head_dim);
    RopeTable rope(head_dim, 500000.0, 40);
    const std::vector<float> x = normal(5 * 3 * width);  // [5 tokens, 3 heads, head_dim]
    std::vector<float> heads = x;
    rope.apply(7, 5, 3, heads.data());
    const std::vector<float> ones(width, 1.0f), zeros(width, 0.0f);
    for (std::size_t h = 0; h < 3; ++h) {
      std::vector<float> rows(5 * width);
      rope.apply(7, 5, x.data() + h * width, static_cast<std::int64_t>(3 * width), rows.data());
      std::vector<float> scaled(5 * width);
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t c = 0; c < width; ++c) {
          ASSERT_EQ(rows[t * width + c], heads[(t * 3 + h) * width + c]);
          scaled[t * width + c] = x[(t * 3 + h) * width + c];
        }
      rope.apply(7, 5, ones.data(), zeros.data(), scaled.data());
      ASSERT_EQ(scaled, rows);
    }
  }
}

TEST(Rope, ScaledFormScalesFirst) {
  constexpr int kHeadDim = 64;
  RopeTable rope(kHeadDim, 10000.0, 100);
  const std::vector<float> x = normal(2 * kHeadDim), scale = normal(kHeadDim + 1),
                           shift = normal(kHeadDim + 2);
  std::vector<float> expected = x, actual = x;
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = x[i] * scale[i % kHeadDim] + shift[i % kHeadDim];
  rope.apply(90, 2, 1, expected.data());
  rope.apply(90, 2, scale.data(), shift.data(), actual.data());
  EXPECT_EQ(actual, expected);
}

TEST(Rope, GrowingChangesNothing) {
  RopeTable whole(64, 10000.0, 1000), grown(64, 10000.0, 3);
  for (std::int64_t n = 4; n <= 1000; n += 83) grown.reserve(n);
  grown.reserve(1000);
  for (std::int64_t p = 0; p < 1000; ++p)
    for (int i = 0; i < 32; ++i) {
      ASSERT_EQ(whole.cosines(p)[i], grown.cosines(p)[i]);
      ASSERT_EQ(whole.sines(p)[i], grown.sines(p)[i]);
    }
}

TEST(Rope, OddHeadDimIsRefused) { EXPECT_THROW(RopeTable(63, 10000.0, 1), base::FailedError); }

}  // namespace
}  // namespace dgap::engine
