#include "engine/cache/group_codec.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.hpp"
#include "base/random.hpp"
#include "engine/cache/codebooks.hpp"

namespace dgap::engine {
namespace {

using base::from_half;
using base::round_to_half;
using schemas::GroupAxis;
using schemas::Quantizer;
using schemas::TensorScheme;

struct Encoded {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales, minima;
};

Encoded encode_rows(const GroupFormat& codec, std::int64_t rows, const std::vector<float>& x) {
  const auto steps = static_cast<std::size_t>(rows / codec.step());
  Encoded e;
  e.codes.resize(static_cast<std::size_t>(rows) * codec.row_bytes());
  e.scales.resize(steps * codec.step_scales());
  if (codec.has_minima()) e.minima.resize(e.scales.size());
  encode_groups(codec, rows, x.data(), e.codes.data(), e.scales.data(), e.minima.data());
  return e;
}

std::vector<float> decode_rows(const GroupFormat& codec, const Encoded& e, std::int64_t from,
                               std::int64_t to) {
  std::vector<float> out(static_cast<std::size_t>((to - from) * codec.width));
  decode_groups(codec, from, to, e.codes.data(), e.scales.data(), e.minima.data(), out.data());
  return out;
}

/// What a group's values read as, by the formulas of docs/schemes.md, one value at a time.
std::vector<float> expected_reads(Quantizer quantizer, int bits, const std::vector<float>& x) {
  double sum = 0, squares = 0;
  float top = 0, low = x[0], high = x[0];
  for (const float v : x) {
    sum += std::fabs(static_cast<double>(v));
    squares += static_cast<double>(v) * static_cast<double>(v);
    top = std::max(top, std::fabs(v)), low = std::min(low, v), high = std::max(high, v);
  }
  const auto n = static_cast<double>(x.size());
  std::vector<float> reads;
  for (const float v : x) {
    if (quantizer == Quantizer::sign_mean) {
      const float s = round_to_half(static_cast<float>(sum / n));
      reads.push_back(v >= 0 ? s : -s);
    } else if ((quantizer == Quantizer::lloyd_max && bits > 2) ||
               quantizer == Quantizer::normal_float) {
      const std::vector<float> levels = levels_of({.bits = bits, .quantizer = quantizer}, 64);
      const double size = quantizer == Quantizer::lloyd_max ? std::sqrt(squares / n) : double{top};
      const float s = round_to_half(static_cast<float>(size));
      std::size_t code = 0;
      while (code + 1 < levels.size() &&
             v >= static_cast<float>((double{levels[code]} + double{levels[code + 1]}) / 2) * s)
        ++code;
      reads.push_back(levels[code] * s);
    } else if (quantizer == Quantizer::lloyd_max) {
      const float s = round_to_half(static_cast<float>(std::sqrt(squares / n)));
      const float magnitude = std::fabs(v) < 0.9816f * s ? 0.4528f * s : 1.510f * s;
      reads.push_back(v >= 0 ? magnitude : -magnitude);
    } else if (quantizer == Quantizer::symmetric) {
      const float levels = static_cast<float>((1 << (bits - 1)) - 1);
      const float s = round_to_half(top / levels);
      reads.push_back(s == 0 ? 0 : std::nearbyint(std::clamp(v / s, -levels, levels)) * s);
    } else {
      const float levels = static_cast<float>((1 << bits) - 1);
      const float m = round_to_half(low);
      const float s = round_to_half(std::max(high - m, 0.0f) / levels);
      reads.push_back(s == 0 ? m : std::nearbyint(std::clamp((v - m) / s, 0.0f, levels)) * s + m);
    }
  }
  return reads;
}

struct Case {
  Quantizer quantizer;
  int bits;
};
const std::vector<Case> kCases = {
    {Quantizer::sign_mean, 1},    {Quantizer::lloyd_max, 2},    {Quantizer::symmetric, 2},
    {Quantizer::symmetric, 3},    {Quantizer::asymmetric, 3},   {Quantizer::lloyd_max, 3},
    {Quantizer::lloyd_max, 4},    {Quantizer::normal_float, 2}, {Quantizer::normal_float, 3},
    {Quantizer::normal_float, 4}, {Quantizer::symmetric, 4},    {Quantizer::symmetric, 8},
    {Quantizer::asymmetric, 1},   {Quantizer::asymmetric, 2},   {Quantizer::asymmetric, 4},
    {Quantizer::asymmetric, 8}};

std::vector<float> mixed_rows(std::size_t n) {
  base::Random random(n, "rows");
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double size = i % 97 == 0 ? 30 : 1;
    x[i] = static_cast<float>(0.3 + size * random.normal());
  }
  return x;
}

TEST(Codec, ReadsFollowTheFormulaForEveryQuantizerAxisAndGroup) {
  struct Shape {
    GroupAxis axis;
    int width, group;
  };
  const std::vector<Shape> shapes = {{GroupAxis::token, 64, 64},   {GroupAxis::token, 64, 32},
                                     {GroupAxis::token, 80, 16},   {GroupAxis::token, 80, 80},
                                     {GroupAxis::token, 100, 20},  {GroupAxis::token, 36, 9},
                                     {GroupAxis::channel, 64, 32}, {GroupAxis::channel, 36, 17}};
  for (const Case& c : kCases)
    for (const Shape& s : shapes) {
      TensorScheme scheme{
          .bits = c.bits, .quantizer = c.quantizer, .axis = s.axis, .group_size = s.group};
      const GroupFormat codec(scheme, s.width);
      const std::int64_t rows = 3 * (s.axis == GroupAxis::channel ? s.group : 7);
      const std::vector<float> x = mixed_rows(static_cast<std::size_t>(rows * s.width));
      const Encoded e = encode_rows(codec, rows, x);
      const std::vector<float> reads = decode_rows(codec, e, 0, rows);
      const auto width = static_cast<std::size_t>(s.width),
                 group = static_cast<std::size_t>(s.group);
      for (std::size_t start = 0; start < x.size() / group; ++start) {
        std::vector<float> values, actual;
        for (std::size_t i = 0; i < group; ++i) {
          const std::size_t at = s.axis == GroupAxis::token
                                     ? start * group + i
                                     : (start / width * group + i) * width + start % width;
          values.push_back(x[at]), actual.push_back(reads[at]);
        }
        ASSERT_EQ(actual, expected_reads(c.quantizer, c.bits, values))
            << "quantizer " << static_cast<int>(c.quantizer) << ", bits " << c.bits << ", width "
            << s.width << ", group " << s.group;
      }
      for (std::int64_t from = 0; from < rows; from += 5)  // any range reads the same
        for (std::int64_t to = from; to <= rows; to += 4)
          ASSERT_EQ(
              decode_rows(codec, e, from, to),
              std::vector<float>(reads.begin() + from * s.width, reads.begin() + to * s.width));
    }
}

TEST(Codec, ZeroAndConstantGroups) {
  for (const Case& c : kCases) {
    const GroupFormat codec({.bits = c.bits, .quantizer = c.quantizer}, 64);
    const Encoded zero = encode_rows(codec, 1, std::vector<float>(64, 0.0f));
    EXPECT_EQ(zero.scales[0], 0);
    EXPECT_EQ(zero.codes, std::vector<std::uint8_t>(codec.row_bytes(), 0));
    for (const float v : decode_rows(codec, zero, 0, 1)) EXPECT_EQ(v, 0.0f);
    // 1e-9 is below every FP16 scale, and reads as 0
    for (const float v :
         decode_rows(codec, encode_rows(codec, 1, std::vector<float>(64, 1e-9f)), 0, 1))
      EXPECT_EQ(v, 0.0f);
    const std::vector<float> constant =
        decode_rows(codec, encode_rows(codec, 1, std::vector<float>(64, -2.5f)), 0, 1);
    if (c.quantizer == Quantizer::asymmetric || c.quantizer == Quantizer::sign_mean)
      EXPECT_EQ(constant, std::vector<float>(64, -2.5f));
    else if (c.quantizer == Quantizer::normal_float)
      EXPECT_EQ(constant, std::vector<float>(64, -2.5f));
    else if (c.quantizer == Quantizer::lloyd_max && c.bits > 2)
      EXPECT_NEAR(constant[0], -2.5f, c.bits == 3 ? 0.7f : 0.4f);
    else if (c.quantizer == Quantizer::lloyd_max)
      EXPECT_EQ(constant, std::vector<float>(64, -1.510f * 2.5f));
    else  // the FP16 scale is off by at most 2^-11
      EXPECT_NEAR(constant[0], -2.5f, 2.5f * 0x1p-11f);
  }
}

TEST(Codec, SignOfZeroIsPlus) {
  const GroupFormat codec({.bits = 1, .quantizer = Quantizer::sign_mean}, 16);
  std::vector<float> x(16, -1.0f);
  x[3] = 0.0f;
  x[4] = -0.0f;
  const Encoded e = encode_rows(codec, 1, x);
  EXPECT_EQ(e.codes, (std::vector<std::uint8_t>{0b00011000, 0}));
}

TEST(Codec, ScalesSaturateInsteadOfOverflowing) {
  for (const Case& c : kCases) {
    const GroupFormat codec({.bits = c.bits, .quantizer = c.quantizer}, 32);
    std::vector<float> x = mixed_rows(32);
    x[5] = 1e9f;
    x[6] = -1e9f;
    for (const float v : decode_rows(codec, encode_rows(codec, 1, x), 0, 1))
      EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(Codec, NanAndInfinityAreSafe) {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  for (const Case& c : kCases)
    for (const GroupAxis axis : {GroupAxis::token, GroupAxis::channel})
      for (const float bad : {nan, inf, -inf}) {
        const GroupFormat codec(
            {.bits = c.bits, .quantizer = c.quantizer, .axis = axis, .group_size = 16}, 16);
        for (const std::vector<float>& x : {std::vector<float>(256, bad), [&] {
                                              std::vector<float> one = mixed_rows(256);
                                              one[7] = bad;
                                              return one;
                                            }()}) {
          const Encoded e = encode_rows(codec, 16, x);
          std::vector<std::uint8_t> codes(16);
          for (std::size_t r = 0; r < 16; ++r)
            unpack_codes(c.bits, e.codes.data() + r * codec.row_bytes(), 16, codes.data());
          decode_rows(codec, e, 0, 16);
        }
      }
}

TEST(Codec, ErrorIsBoundedByHalfAStep) {
  const std::vector<float> x = mixed_rows(64 * 50);
  for (const int bits : {4, 8}) {
    const GroupFormat codec({.bits = bits, .quantizer = Quantizer::symmetric}, 64);
    const Encoded e = encode_rows(codec, 50, x);
    const std::vector<float> y = decode_rows(codec, e, 0, 50);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float s = from_half(e.scales[i / 64]);
      // the scale is rounded by up to 2^-11, which the largest code multiplies
      ASSERT_LE(std::fabs(x[i] - y[i]),
                s * (0.5f + static_cast<float>(1 << (bits - 1)) * 0x1p-11f));
    }
  }
}

}  // namespace
}  // namespace dgap::engine
