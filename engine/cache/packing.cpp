#include "engine/cache/packing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dgap::engine {
namespace {

static_assert(std::endian::native == std::endian::little,
              "codes are joined in little-endian words");

/// The low `bits` bits of every unit of `unit` bits.
constexpr std::uint64_t mask(int bits, int unit) {
  std::uint64_t mask = 0;
  for (int at = 0; at < 64; at += unit) mask |= (~std::uint64_t{0} >> (64 - bits)) << at;
  return mask;
}

/// Units of 2 * kUnit bits that hold two values of kBits, in their lower bits and from bit kUnit
/// on: the values side by side.
template <int kBits, int kUnit>
std::uint64_t join_pairs(std::uint64_t values) {
  constexpr std::uint64_t kLow = mask(kBits, 2 * kUnit);
  return (values & kLow) | ((values >> (kUnit - kBits)) & (kLow << kBits));
}

/// Eight codes, one a byte, to kBits bytes: neighbours are joined three times.
template <int kBits>
std::uint64_t join(std::uint64_t codes) {
  return join_pairs<4 * kBits, 32>(join_pairs<2 * kBits, 16>(join_pairs<kBits, 8>(codes)));
}

template <int kBits>
void pack(const std::uint8_t* codes, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = 0; i < n; i += 8) {
    const std::size_t count = std::min<std::size_t>(8, n - i);
    std::uint64_t word = 0;
    std::memcpy(&word, codes + i, count);
    word = join<kBits>(word);
    std::memcpy(out, &word, packed_bytes(kBits, count));
    out += kBits;
  }
}

}  // namespace

void pack_codes(int bits, const std::uint8_t* codes, std::size_t n, std::uint8_t* out) {
  switch (bits) {
    case 1:
      return pack<1>(codes, n, out);
    case 2:
      return pack<2>(codes, n, out);
    case 3:
      return pack<3>(codes, n, out);
    case 4:
      return pack<4>(codes, n, out);
    case 5:
      return pack<5>(codes, n, out);
    default:
      std::copy_n(codes, n, out);
  }
}

void unpack_codes(int bits, const std::uint8_t* packed, std::size_t n, std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i)
    codes[i] = static_cast<std::uint8_t>(code_at(bits, packed, i));
}

}  // namespace dgap::engine
