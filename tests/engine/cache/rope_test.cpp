#include "engine/cache/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/cache/rope_frequencies.hpp"

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

RopeParameters scaled(RopeParameters::Scaling scaling, double theta, double factor,
                      std::int64_t original) {
  RopeParameters rope(theta);
  rope.scaling = scaling, rope.factor = factor, rope.original_context = original;
  return rope;
}

// Values worked out from arXiv:2309.00071 for Qwen2.5's YaRN: the ramp runs from pair 23 to 40.
TEST(Rope, Yarn) {
  RopeParameters rope = scaled(RopeParameters::Scaling::yarn, 1e6, 4.0, 32768);
  const std::vector<double> f = rope_frequencies(rope, 128, 1),
                            plain = rope_frequencies(1e6, 128, 1);
  EXPECT_EQ(f[23], plain[23]);
  EXPECT_LT(f[24], plain[24]);
  EXPECT_NEAR(f[30], 1.064361e-3, 5e-10);
  EXPECT_NEAR(f[40], 4.4456985e-5, 5e-12);
  EXPECT_DOUBLE_EQ(f[40], plain[40] / 4.0);
  EXPECT_GT(f[39], plain[39] / 4.0);
  EXPECT_NEAR(rope_attention_factor(rope), 1.138629, 5e-7);
  const RopeTable table(128, rope, 2);
  EXPECT_FLOAT_EQ(table.cosines(0)[5], 1.138629f);
  EXPECT_FLOAT_EQ(table.sines(1)[0], static_cast<float>(1.1386294361 * std::sin(1.0)));
  rope.attention_factor = 1.0;
  EXPECT_EQ(rope_attention_factor(rope), 1.0);
  rope.attention_factor.reset();
  rope.mscale = 1.0, rope.mscale_all_dim = 1.0;
  EXPECT_EQ(rope_attention_factor(rope), 1.0);
}

// Llama 3.1: wavelengths below 8192 / 4 stay, those above 8192 grow eightfold.
TEST(Rope, Llama3) {
  const RopeParameters rope = scaled(RopeParameters::Scaling::llama3, 500000.0, 8.0, 8192);
  const std::vector<double> f = rope_frequencies(rope, 128, 1),
                            plain = rope_frequencies(500000.0, 128, 1);
  for (std::size_t i = 0; i < 64; ++i) {
    const double wavelength = 2.0 * M_PI / plain[i];
    if (wavelength < 2048.0)
      EXPECT_EQ(f[i], plain[i]) << i;
    else if (wavelength > 8192.0)
      EXPECT_DOUBLE_EQ(f[i], plain[i] / 8.0) << i;
    else
      EXPECT_NEAR(f[i] / plain[i],  // linear in 8192 / wavelength between 1 and 4
                  0.125 + 0.875 * (8192.0 / wavelength - 1.0) / 3.0, 1e-12)
          << i;
  }
  EXPECT_EQ(rope_attention_factor(rope), 1.0);
  // GGUF stores the ratios instead.
  RopeParameters divisors(500000.0);
  for (std::size_t i = 0; i < 64; ++i) divisors.divisors.push_back(plain[i] / f[i]);
  const std::vector<double> same = rope_frequencies(divisors, 128, 1);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(same[i] / f[i], 1.0, 1e-15);
  EXPECT_THROW(RopeTable(64, divisors, 1), base::FailedError);
}

TEST(Rope, LinearAndDynamic) {
  const std::vector<double> plain = rope_frequencies(10000.0, 64, 1);
  const std::vector<double> linear =
      rope_frequencies(scaled(RopeParameters::Scaling::linear, 10000.0, 4.0, 0), 64, 1);
  const RopeParameters dynamic = scaled(RopeParameters::Scaling::dynamic, 10000.0, 2.0, 100);
  EXPECT_EQ(rope_frequencies(dynamic, 64, 100), plain);
  const std::vector<double> far = rope_frequencies(dynamic, 64, 300);
  const double base = 10000.0 * std::pow(2.0 * 3.0 - 1.0, 64.0 / 62.0);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(linear[i], plain[i] / 4.0);
    EXPECT_NEAR(far[i] / std::pow(base, -2.0 * static_cast<double>(i) / 64.0), 1.0, 1e-14);
  }
  // A position is rotated as the last of a sequence of its length, whatever comes after it.
  RopeTable grown(64, dynamic, 150);
  const RopeTable whole(64, dynamic, 400);
  grown.reserve(400);
  for (const std::int64_t p : {0, 99, 100, 149, 150, 299, 399})
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(grown.sines(p)[i], whole.sines(p)[i]);
      const double angle = static_cast<double>(p) * rope_frequencies(dynamic, 64, p + 1)[i];
      EXPECT_EQ(whole.sines(p)[i], static_cast<float>(std::sin(angle)));
    }
}

TEST(Rope, OddHeadDimIsRefused) { EXPECT_THROW(RopeTable(63, 10000.0, 1), base::FailedError); }

}  // namespace
}  // namespace dgap::engine
