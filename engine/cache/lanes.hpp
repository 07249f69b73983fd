#pragma once
#include <cstdint>
#include <cstring>

#include "base/multiversion.hpp"

/// Sixteen lanes as GCC/Clang vectors: the compiler splits them into what the instruction set has,
/// and loops written with them do not depend on what its vectoriser recognises. Passed by reference
/// only, since the ABI of passing them by value depends on the instruction set.
namespace dgap::engine {

using Ints16 = std::int32_t __attribute__((vector_size(64)));
using Floats16 = float __attribute__((vector_size(64)));
using Floats8 = float __attribute__((vector_size(32)));
using Doubles8 = double __attribute__((vector_size(64)));
using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
using Shorts16 = std::int16_t __attribute__((vector_size(32)));

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

/// table[code] of sixteen codes below 16: one instruction where AVX-512 is.
DGAP_INLINE void look_up(const float (&table)[16], const Ints16& codes, Floats16& out) {
#if defined(__GNUC__) && !defined(__clang__)
  Floats16 levels;
  load(table, levels);
  out = __builtin_shuffle(levels, codes);
#else
  for (int l = 0; l < 16; ++l) out[l] = table[codes[l]];
#endif
}
DGAP_INLINE void look_up(const float (&table)[16], const std::int32_t& code, float& out) {
  out = table[code];
}

/// A little-endian word of `bytes` <= 4 bytes.
DGAP_INLINE std::int32_t load_word(const std::uint8_t* from, int bytes) {
  std::uint32_t word = 0;
  for (int b = 0; b < bytes; ++b) word |= std::uint32_t{from[b]} << (8 * b);
  return static_cast<std::int32_t>(word);
}

/// The sixteen codes of kBits that start at `packed`, on a byte. Written in the forms that GCC
/// turns into vector code at every instruction set.
template <int kBits>
DGAP_INLINE void unpack(const std::uint8_t* packed, Ints16& codes) {
  if constexpr (kBits == 8) {
    Bytes16 bytes;
    std::memcpy(&bytes, packed, sizeof bytes);
    const Shorts16 shorts = __builtin_convertvector(bytes, Shorts16);
    codes = __builtin_convertvector(shorts, Ints16);
  } else if constexpr (kBits == 4) {
    const Ints16 first = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    const Ints16 shifts = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
    const Ints16 words = ((load_word(packed, 4) - Ints16{}) & first) |
                         ((load_word(packed + 4, 4) - Ints16{}) & ~first);
    codes = (words >> shifts) & 15;
  } else if constexpr (kBits == 3) {
    // Eight codes are 24 bits; the second word begins a byte early, inside the row.
    const Ints16 first = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    const Ints16 shifts = {0, 3, 6, 9, 12, 15, 18, 21, 8, 11, 14, 17, 20, 23, 26, 29};
    const Ints16 words = ((load_word(packed, 4) - Ints16{}) & first) |
                         ((load_word(packed + 2, 4) - Ints16{}) & ~first);
    codes = (words >> shifts) & 7;
  } else if constexpr (kBits == 5) {
    // Four codes are 20 bits; words begin on bytes 0, 2, 4 and 6, before or on those.
    const Ints16 shifts = {0, 5, 10, 15, 4, 9, 14, 19, 8, 13, 18, 23, 12, 17, 22, 27};
    const Ints16 quarter = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    Ints16 words = (load_word(packed, 4) - Ints16{}) & (quarter == 0);
    words |= (load_word(packed + 2, 4) - Ints16{}) & (quarter == 1);
    words |= (load_word(packed + 4, 4) - Ints16{}) & (quarter == 2);
    words |= (load_word(packed + 6, 4) - Ints16{}) & (quarter == 3);
    codes = (words >> shifts) & 31;
  } else {
    const Ints16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    codes = ((load_word(packed, 2 * kBits) - Ints16{}) >> (lane * kBits)) & ((1 << kBits) - 1);
  }
}

}  // namespace dgap::engine
