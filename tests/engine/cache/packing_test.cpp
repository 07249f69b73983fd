#include "engine/cache/packing.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.hpp"
#include "engine/cache/lanes.hpp"

namespace dgap::engine {
namespace {

std::vector<std::uint8_t> random_codes(int bits, std::size_t n) {
  base::Random random(n, "codes");
  std::vector<std::uint8_t> codes(n);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(std::uint64_t{1} << bits));
  return codes;
}

TEST(Packing, LittleEndFirst) {
  std::uint8_t out[2] = {};
  pack_codes(1, std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 0, 0, 0, 1}.data(), 10, out);
  EXPECT_EQ(out[0], 0x01);
  EXPECT_EQ(out[1], 0x02);
  pack_codes(2, std::vector<std::uint8_t>{3, 0, 1, 2, 1}.data(), 5, out);
  EXPECT_EQ(out[0], 0b10'01'00'11);
  EXPECT_EQ(out[1], 0b01);
  pack_codes(4, std::vector<std::uint8_t>{0xa, 0x5, 0xf}.data(), 3, out);
  EXPECT_EQ(out[0], 0x5a);
  EXPECT_EQ(out[1], 0x0f);
  pack_codes(3, std::vector<std::uint8_t>{5, 0, 7, 1}.data(), 4, out);
  EXPECT_EQ(out[0], 0b11'000'101);  // the third code crosses into the next byte
  EXPECT_EQ(out[1], 0b001'1);
}

TEST(Packing, RoundTripsAtEveryWidthAndLength) {
  for (const int bits : {1, 2, 3, 4, 5, 8})
    for (std::size_t n = 1; n <= 130; ++n) {
      const std::vector<std::uint8_t> codes = random_codes(bits, n);
      std::vector<std::uint8_t> packed(packed_bytes(bits, n) + 1, 0xaa), back(n);
      EXPECT_EQ(packed_bytes(bits, n), (n * static_cast<std::size_t>(bits) + 7) / 8);
      pack_codes(bits, codes.data(), n, packed.data());
      EXPECT_EQ(packed.back(), 0xaa) << "wrote past the row";
      unpack_codes(bits, packed.data(), n, back.data());
      ASSERT_EQ(back, codes) << bits << " bits, " << n << " codes";
      const std::size_t unused = 8 * packed_bytes(bits, n) - n * static_cast<std::size_t>(bits);
      EXPECT_EQ(unused == 0 ? 0 : packed[packed.size() - 2] >> (8 - unused), 0) << "unused bits";
    }
}

template <int kBits>
void expect_lanes_unpack() {
  const std::vector<std::uint8_t> codes = random_codes(kBits, 16);
  std::vector<std::uint8_t> packed(packed_bytes(kBits, 16));
  pack_codes(kBits, codes.data(), 16, packed.data());
  Ints16 lanes;
  unpack<kBits>(packed.data(), lanes);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(lanes[i], codes[static_cast<std::size_t>(i)]) << kBits << " bits, " << i;
}

TEST(Packing, LanesSeeTheSameCodes) {
  expect_lanes_unpack<1>();
  expect_lanes_unpack<2>();
  expect_lanes_unpack<3>();
  expect_lanes_unpack<4>();
  expect_lanes_unpack<5>();
  expect_lanes_unpack<8>();
}

}  // namespace
}  // namespace dgap::engine
