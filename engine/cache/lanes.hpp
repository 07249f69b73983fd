#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/multiversion.hpp"

/// Sixteen lanes as GCC/Clang vectors: the compiler splits them into what the instruction set has,
/// and loops written with them do not depend on what its vectoriser recognises. Passed by reference
/// only, since the ABI of passing them by value depends on the instruction set.
namespace dgap::engine {

static_assert(std::endian::native == std::endian::little,
              "packed codes are read as little-endian words");

using Ints16 = std::int32_t __attribute__((vector_size(64)));
using Floats16 = float __attribute__((vector_size(64)));
using Floats8 = float __attribute__((vector_size(32)));
using Doubles8 = double __attribute__((vector_size(64)));
using Longs8 = std::uint64_t __attribute__((vector_size(64)));

DGAP_INLINE void to_float(const std::int32_t& x, float& out) { out = static_cast<float>(x); }
DGAP_INLINE void to_float(const Ints16& x, Floats16& out) {
  out = __builtin_convertvector(x, Floats16);
}

DGAP_INLINE void to_double(const Floats16& x, Doubles8& low, Doubles8& high) {
  Floats8 halves[2];
  std::memcpy(halves, &x, sizeof x);
  low = __builtin_convertvector(halves[0], Doubles8);
  high = __builtin_convertvector(halves[1], Doubles8);
}

DGAP_INLINE void load(const float* from, Floats16& out) { std::memcpy(&out, from, sizeof out); }
DGAP_INLINE void store(const Floats16& x, float* to) { std::memcpy(to, &x, sizeof x); }
DGAP_INLINE void broadcast(float x, Floats16& out) { out = x - Floats16{}; }

/// A little-endian word of `bytes` bytes.
template <class Word>
DGAP_INLINE Word load_word(const std::uint8_t* from, int bytes) {
  Word word = 0;
  for (int b = 0; b < bytes; ++b) word |= Word{from[b]} << (8 * b);
  return word;
}

/// The sixteen codes of kBits that start at `packed`, on a byte.
template <int kBits>
DGAP_INLINE void unpack(const std::uint8_t* packed, Ints16& codes) {
  if constexpr (kBits == 8) {
    std::int32_t wide[16];
    for (int i = 0; i < 16; ++i) wide[i] = packed[i];
    std::memcpy(&codes, wide, sizeof codes);
  } else if constexpr (kBits == 4) {
    // Lane k of eight holds byte k of the word: its low nibble is lane 2k, its high one lane 2k
    // + 1.
    const Longs8 lane = {0, 8, 16, 24, 32, 40, 48, 56};
    const Longs8 byte = (load_word<std::uint64_t>(packed, 8) - Longs8{}) >> lane;
    const Longs8 nibbles = (byte & 0xf) | ((byte << 28) & 0xf00000000);
    codes = __builtin_bit_cast(Ints16, nibbles);
  } else {
    const Ints16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const auto word = static_cast<std::int32_t>(load_word<std::uint32_t>(packed, 2 * kBits));
    codes = ((word - Ints16{}) >> (lane * kBits)) & ((1 << kBits) - 1);
  }
}

}  // namespace dgap::engine
