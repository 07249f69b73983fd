#include "base/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/random.hpp"

namespace dgap::base {
namespace {

/// binary16 by the definition, in double arithmetic: round to a multiple of the ulp, half to even.
float rounded_by_definition(float x) {
  if (x == 0.0f || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -14);
  const double ulp = std::ldexp(1.0, exponent - 10);
  const double value = std::nearbyint(x / ulp) * ulp;
  return std::abs(value) > 65504.0 ? std::copysign(INFINITY, x) : static_cast<float>(value);
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(from_half(half)));
      EXPECT_TRUE(std::isnan(from_half(to_half(from_half(half)))));
    } else {
      EXPECT_EQ(to_half(from_half(half)), half);
    }
  }
}

TEST(Half, RoundsToEvenEverywhere) {
  Random random(3);
  for (int i = 0; i < 500'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (std::isnan(x)) continue;
    EXPECT_EQ(from_half(to_half(x)), rounded_by_definition(x)) << x;
  }
  for (unsigned bits = 0; bits < 0x7c00;
       ++bits) {  // midpoints between neighbours, and their neighbours
    const float low = from_half(static_cast<std::uint16_t>(bits));
    const float high =
        bits + 1 == 0x7c00 ? 65536.0f : from_half(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    for (const float x : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      EXPECT_EQ(from_half(to_half(x)), rounded_by_definition(x)) << x;
      EXPECT_EQ(from_half(to_half(-x)), rounded_by_definition(-x)) << x;
    }
  }
}

TEST(Half, ArraysEqualSingles) {
  Random random(4);
  std::vector<float> x(1000);
  for (float& v : x) v = static_cast<float>(random.normal() * std::exp(random.normal() * 6));
  std::vector<std::uint16_t> half(x.size()), brain(x.size());
  std::vector<float> back(x.size());
  to_half(x.data(), half.data(), x.size());
  to_bfloat16(x.data(), brain.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(half[i], to_half(x[i]));
    EXPECT_EQ(brain[i], to_bfloat16(x[i]));
  }
  from_half(half.data(), back.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(back[i], from_half(half[i]));
}

TEST(Half, ArraysOfEveryPattern) {
  std::vector<std::uint16_t> all(65536), again(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  from_half(all.data(), wide.data(), all.size());
  to_half(wide.data(), again.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(from_half(all[i]))) {
      EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(from_half(again[i])));
      continue;
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
              std::bit_cast<std::uint32_t>(from_half(all[i])));
    EXPECT_EQ(again[i], all[i]);
  }
}

TEST(BFloat16, KnownValues) {
  EXPECT_EQ(to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(to_bfloat16(1.00390625f), 0x3f80);  // tie: to even
  EXPECT_EQ(to_bfloat16(1.01171875f), 0x3f82);
  EXPECT_EQ(to_bfloat16(INFINITY), 0x7f80);
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(NAN))));
}

}  // namespace
}  // namespace dgap::base
