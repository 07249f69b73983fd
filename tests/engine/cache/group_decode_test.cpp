#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/group_levels.hpp"
#include "engine/cache/packing.hpp"

namespace dgap::engine {
namespace {

using schemas::Quantizer;
using schemas::TensorScheme;

/// Random codes, scales of either sign, some of them subnormal or zero, and minima.
struct Stored {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales, minima;
};

Stored random_rows(const GroupFormat& format, std::size_t rows) {
  base::Random random(rows, "codes");
  Stored stored;
  stored.codes.resize(rows * format.row_bytes());
  for (auto& byte : stored.codes) byte = static_cast<std::uint8_t>(random.below(256));
  for (auto* halves : {&stored.scales, &stored.minima}) {
    halves->resize(rows * format.step_scales());
    for (auto& half : *halves) {
      const double size = random.below(4) == 0 ? 1e-6 : 1.0;
      half = random.below(9) == 0 ? std::uint16_t{0}
                                  : base::to_half(static_cast<float>(size * random.normal()));
    }
  }
  return stored;
}

template <int kBits>
float value_of(const GroupFormat& format, std::int32_t code, float scale, float minimum) {
  float value = 0;
  with_level<kBits>(format, [&](const auto& level) { level.value(code, scale, minimum, value); });
  return value;
}

/// One code at a time.
template <int kBits>
std::vector<std::uint32_t> expected(const GroupFormat& format, const Stored& stored,
                                    std::size_t from, std::size_t to) {
  const auto width = static_cast<std::size_t>(format.width);
  const auto group = static_cast<std::size_t>(format.group);
  std::vector<std::uint32_t> bits;
  for (std::size_t t = from; t < to; ++t)
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t i = t * format.step_scales() + c / group;
      const float minimum = format.has_minima() ? base::from_half(stored.minima[i]) : 0.0f;
      const std::int32_t code = code_at(kBits, stored.codes.data() + t * format.row_bytes(), c);
      bits.push_back(std::bit_cast<std::uint32_t>(
          value_of<kBits>(format, code, base::from_half(stored.scales[i]), minimum)));
    }
  return bits;
}

template <int kBits>
void check(Quantizer quantizer) {
  constexpr std::size_t kRows = 41;
  for (const auto& [width, group] : {std::pair{64, 64},
                                     {64, 32},
                                     {128, 128},
                                     {80, 16},
                                     {96, 48},
                                     {32, 32},
                                     {16, 16},
                                     {36, 9},
                                     {100, 20}}) {
    const bool ggml = quantizer == Quantizer::q4_0 || quantizer == Quantizer::q4_1 ||
                      quantizer == Quantizer::iq4_nl;
    if (ggml && group != 32) continue;
    const TensorScheme tensor{.bits = kBits, .quantizer = quantizer, .group_size = group};
    const GroupFormat format(tensor, width);
    const Stored stored = random_rows(format, kRows);
    std::vector<std::uint8_t> shifted(stored.codes.size() + 1);  // codes at an odd address
    std::copy(stored.codes.begin(), stored.codes.end(), shifted.begin() + 1);
    for (const auto& [from, to] : {std::pair{0, 41}, {0, 1}, {1, 2}, {3, 3}, {7, 40}, {40, 41}}) {
      const auto count = static_cast<std::size_t>((to - from) * width);
      std::vector<float> out(count + 1, -7.0f);
      decode_groups(format, from, to, shifted.data() + 1, stored.scales.data(),
                    stored.minima.data(), out.data());
      EXPECT_EQ(out.back(), -7.0f) << "wrote past the end";
      std::vector<std::uint32_t> bits;
      for (std::size_t i = 0; i < count; ++i) bits.push_back(std::bit_cast<std::uint32_t>(out[i]));
      ASSERT_EQ(bits, expected<kBits>(format, stored, static_cast<std::size_t>(from),
                                      static_cast<std::size_t>(to)))
          << "quantizer " << static_cast<int>(quantizer) << ", bits " << kBits << ", width "
          << width << ", group " << group << ", rows " << from << " to " << to;
    }
  }
}

TEST(GroupDecode, EqualsOneCodeAtATimeBitForBit) {
  check<1>(Quantizer::sign_mean);
  check<1>(Quantizer::asymmetric);
  check<2>(Quantizer::lloyd_max);
  check<2>(Quantizer::symmetric);
  check<2>(Quantizer::asymmetric);
  check<2>(Quantizer::normal_float);
  check<3>(Quantizer::lloyd_max);
  check<3>(Quantizer::symmetric);
  check<3>(Quantizer::asymmetric);
  check<4>(Quantizer::lloyd_max);
  check<4>(Quantizer::symmetric);
  check<4>(Quantizer::asymmetric);
  check<4>(Quantizer::normal_float);
  check<4>(Quantizer::q4_0);
  check<4>(Quantizer::q4_1);
  check<4>(Quantizer::iq4_nl);
  check<8>(Quantizer::symmetric);
  check<8>(Quantizer::asymmetric);
}

}  // namespace
}  // namespace dgap::engine
