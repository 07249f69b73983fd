#pragma once
#include <cstddef>
#include <cstdint>

#include "base/multiversion.hpp"

/// Codes of 1, 2, 3, 4, 5 or 8 bits, physically packed: code i of a row stands in bits
/// [i * b, i * b + b) of the row, counted from the least significant bit of its first byte. Rows
/// start on bytes.
namespace dgap::engine {

constexpr std::size_t packed_bytes(int bits, std::size_t codes) {
  return (codes * static_cast<std::size_t>(bits) + 7) / 8;
}

/// out gets packed_bytes(bits, n) bytes; codes [n], each below 2^bits. Unused bits are 0.
void pack_codes(int bits, const std::uint8_t* codes, std::size_t n, std::uint8_t* out);
/// The inverse: codes [n].
void unpack_codes(int bits, const std::uint8_t* packed, std::size_t n, std::uint8_t* codes);

/// Code i of a packed row.
DGAP_INLINE std::int32_t code_at(int bits, const std::uint8_t* row, std::size_t i) {
  const std::size_t bit = i * static_cast<std::size_t>(bits);
  const int shift = static_cast<int>(bit % 8);
  std::int32_t word = row[bit / 8];
  if (shift + bits > 8) word |= row[bit / 8 + 1] << 8;
  return (word >> shift) & ((1 << bits) - 1);
}

/// Sets code i of a packed row whose bits are still 0 there.
DGAP_INLINE void set_code(int bits, std::uint8_t* row, std::size_t i, std::int32_t code) {
  const std::size_t bit = i * static_cast<std::size_t>(bits);
  const int shift = static_cast<int>(bit % 8);
  row[bit / 8] = static_cast<std::uint8_t>(row[bit / 8] | (code << shift));
  if (shift + bits > 8)
    row[bit / 8 + 1] = static_cast<std::uint8_t>(row[bit / 8 + 1] | (code >> (8 - shift)));
}

}  // namespace dgap::engine
