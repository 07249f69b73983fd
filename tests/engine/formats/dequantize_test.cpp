#include "engine/formats/dequantize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/half.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

// One block per type, with values worked out by hand from the format's definition.
namespace dgap::engine {
namespace {

using testing::bytes_of;

std::string half(float x) { return bytes_of(base::to_half(x)); }
std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out += static_cast<char>(b);
  return out;
}

std::vector<float> dequantized(GgufTensorType type, const std::string& block) {
  const GgufBlock& format = gguf_block(type);
  EXPECT_EQ(static_cast<std::int64_t>(block.size()) % format.bytes, 0);
  const std::int64_t elements =
      static_cast<std::int64_t>(block.size()) / format.bytes * format.elements;
  std::vector<float> out(static_cast<std::size_t>(elements), -1e30f);
  dequantize_row(type, reinterpret_cast<const std::byte*>(block.data()), elements, out.data());
  return out;
}

TEST(Dequantize, PlainTypes) {
  using ::testing::ElementsAre;
  EXPECT_THAT(dequantized(GgufTensorType::f32, bytes_of(1.1f) + bytes_of(-3.0f)),
              ElementsAre(1.1f, -3.0f));
  EXPECT_THAT(dequantized(GgufTensorType::f16, half(1.5f) + half(-65504.0f) + half(0x1p-24f)),
              ElementsAre(1.5f, -65504.0f, 0x1p-24f));
  EXPECT_THAT(dequantized(GgufTensorType::bf16, bytes({0x80, 0x3f, 0x40, 0xc0})),
              ElementsAre(1.0f, -3.0f));
}

// Byte i holds code i in its low and code i + 16 in its high half.
std::string nibbles() {
  std::string out;
  for (int i = 0; i < 16; ++i) out += static_cast<char>(i | (15 - i) << 4);
  return out;
}
int nibble(int i) { return i < 16 ? i : 15 - (i - 16); }

TEST(Dequantize, FourBits) {
  const auto q40 = dequantized(GgufTensorType::q4_0, half(0.5f) + nibbles());
  const auto q41 = dequantized(GgufTensorType::q4_1, half(0.5f) + half(-3.0f) + nibbles());
  for (int i = 0; i < 32; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(q40[at], 0.5f * static_cast<float>(nibble(i) - 8));
    EXPECT_EQ(q41[at], 0.5f * static_cast<float>(nibble(i)) - 3.0f);
  }
}

TEST(Dequantize, FourBitsOfUnequalSteps) {
  const auto values = dequantized(GgufTensorType::iq4_nl, half(0.5f) + nibbles());
  EXPECT_EQ(values[0], -63.5f);  // code 0: -127
  EXPECT_EQ(values[8], 0.5f);    // code 8: 1
  EXPECT_EQ(values[15], 56.5f);  // code 15: 113
  EXPECT_EQ(values[16], 56.5f);  // the high half of byte 0
  EXPECT_EQ(values[31], -63.5f);
}

TEST(Dequantize, FiveBits) {
  const std::uint32_t high = 0x80000405u;  // elements 0, 2, 10 and 31 have their fifth bit set
  const auto q50 = dequantized(GgufTensorType::q5_0, half(2.0f) + bytes_of(high) + nibbles());
  const auto q51 =
      dequantized(GgufTensorType::q5_1, half(2.0f) + half(1.0f) + bytes_of(high) + nibbles());
  for (int i = 0; i < 32; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int code = nibble(i) + ((i == 0 || i == 2 || i == 10 || i == 31) ? 16 : 0);
    EXPECT_EQ(q50[at], 2.0f * static_cast<float>(code - 16)) << i;
    EXPECT_EQ(q51[at], 2.0f * static_cast<float>(code) + 1.0f) << i;
  }
}

TEST(Dequantize, EightBits) {
  std::string codes;
  for (int i = 0; i < 32; ++i) codes += static_cast<char>(i * 8 - 128);
  // Two blocks, so that the second one's place is tested as well.
  const auto y = dequantized(GgufTensorType::q8_0, half(0.25f) + codes + half(-1.0f) + codes);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[static_cast<std::size_t>(i)], 0.25f * static_cast<float>(i * 8 - 128));
    EXPECT_EQ(y[static_cast<std::size_t>(i + 32)], -static_cast<float>(i * 8 - 128));
  }
}

// Scales 1, 2, 3, 60, 17, 34, 51, 63 and minima 5, 6, 7, 8, 16, 33, 50, 3, packed by hand.
const std::string kScales =
    bytes({1 | 1 << 6, 2 | 2 << 6, 3 | 3 << 6, 60 | 3 << 6, 5 | 1 << 6, 6 | 2 << 6, 7 | 3 << 6,
           8 | 0 << 6, 1 | 0 << 4, 2 | 1 << 4, 3 | 2 << 4, 15 | 3 << 4});
constexpr int kScale[8] = {1, 2, 3, 60, 17, 34, 51, 63};
constexpr int kMinimum[8] = {5, 6, 7, 8, 16, 33, 50, 3};

// Codes of 256 elements in 4 runs of 32 bytes: groups 2 k and 2 k + 1 in the halves of run k.
int k_code(int group, int i) { return (group * 5 + i * 3) % 16; }
std::string k_codes() {
  std::string out;
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < 32; ++i)
      out += static_cast<char>(k_code(2 * run, i) | k_code(2 * run + 1, i) << 4);
  }
  return out;
}

// Scale i is i, minimum 15 - i; all codes are 2, but for the last of the block, which is 3.
TEST(Dequantize, TwoBitsInSuperBlocks) {
  std::string block;
  for (int i = 0; i < 16; ++i) block += static_cast<char>(i | (15 - i) << 4);
  block += std::string(63, static_cast<char>(0xaa)) + static_cast<char>(0xea);
  const auto values = dequantized(GgufTensorType::q2_k, block + half(0.5f) + half(0.25f));
  for (int i = 0; i < 256; ++i) {
    const int scale = i / 16, code = i == 255 ? 3 : 2;
    EXPECT_EQ(values[static_cast<std::size_t>(i)],
              0.5f * static_cast<float>(scale * code) - 0.25f * static_cast<float>(15 - scale))
        << i;
  }
}

// Scale 1 is 31 (63 - 32), scale 12 is -32 (0 - 32), the others 0 (32 - 32); codes are 3, with the
// high bit set in element 16 alone: 3 there, -1 elsewhere.
TEST(Dequantize, ThreeBitsInSuperBlocks) {
  std::string high(32, '\0'), scales(12, '\0');
  high[16] = 1;
  scales[1] = 15;  // low bits of scale 1
  for (int i = 8; i < 12; ++i) scales[static_cast<std::size_t>(i)] = static_cast<char>(0xaa);
  scales[9] = static_cast<char>(0xab);  // high bits of scale 1: 3
  scales[8] = static_cast<char>(0x2a);  // of scale 12: 0
  const auto values = dequantized(
      GgufTensorType::q3_k, high + std::string(64, static_cast<char>(0xff)) + scales + half(0.5f));
  EXPECT_EQ(values[16], 0.5f * 31 * 3);
  EXPECT_EQ(values[17], 0.5f * 31 * -1);
  EXPECT_EQ(values[12 * 16], 0.5f * -32 * -1);
  EXPECT_EQ(values[0], 0.0f);
}

TEST(Dequantize, FourBitsInSuperBlocks) {
  const auto y = dequantized(GgufTensorType::q4_k, half(0.5f) + half(0.25f) + kScales + k_codes());
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      const float expected = 0.5f * static_cast<float>(kScale[g] * k_code(g, i)) -
                             0.25f * static_cast<float>(kMinimum[g]);
      EXPECT_EQ(y[static_cast<std::size_t>(32 * g + i)], expected) << g << " " << i;
    }
  }
}

TEST(Dequantize, FiveBitsInSuperBlocks) {
  std::string high;  // bit g of byte i belongs to element i of group g
  for (int i = 0; i < 32; ++i) high += static_cast<char>(i * 7 + 1);
  const auto y =
      dequantized(GgufTensorType::q5_k, half(0.5f) + half(0.25f) + kScales + high + k_codes());
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      const int code = k_code(g, i) + (((i * 7 + 1) >> g & 1) != 0 ? 16 : 0);
      const float expected =
          0.5f * static_cast<float>(kScale[g] * code) - 0.25f * static_cast<float>(kMinimum[g]);
      EXPECT_EQ(y[static_cast<std::size_t>(32 * g + i)], expected) << g << " " << i;
    }
  }
}

TEST(Dequantize, SixBitsInSuperBlocks) {
  // Element e of 256: half h = e / 128, quarter k = e / 32 % 4, i = e % 32. Low bits in byte
  // 64 h + 32 (k % 2) + i (high half for k >= 2), high bits 2 k of byte 32 h + i, scale e / 16.
  const auto code = [](int e) { return (e * 11 + e / 32) % 64; };
  std::string low(128, '\0'), high(64, '\0'), scales;
  for (int e = 0; e < 256; ++e) {
    const int h = e / 128, k = e / 32 % 4, i = e % 32;
    low[static_cast<std::size_t>(64 * h + 32 * (k % 2) + i)] |=
        static_cast<char>((code(e) & 15) << (k >= 2 ? 4 : 0));
    high[static_cast<std::size_t>(32 * h + i)] |= static_cast<char>(code(e) >> 4 << 2 * k);
  }
  for (int s = 0; s < 16; ++s) scales += static_cast<char>(s * 16 - 128);
  const auto y = dequantized(GgufTensorType::q6_k, low + high + scales + half(0.125f));
  for (int e = 0; e < 256; ++e) {
    const float expected = 0.125f * static_cast<float>((e / 16 * 16 - 128) * (code(e) - 32));
    EXPECT_EQ(y[static_cast<std::size_t>(e)], expected) << e;
  }
}

}  // namespace
}  // namespace dgap::engine
