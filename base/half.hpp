#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/multiversion.hpp"

namespace dgap::base {

/// IEEE binary16 bits of a float, round half to even; overflow gives infinity, NaN stays NaN.
/// Branch-light integer arithmetic, so that loops over it vectorise; equal to F16C for all inputs.
DGAP_INLINE std::uint16_t to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Normal halves: re-bias and round by integer addition; the carry runs into the exponent.
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  const std::uint32_t normal = (rounded - (112u << 23)) >> 13;
  // Subnormal halves: let a float addition align and round the mantissa (0.5 has ulp 2^-24).
  const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  std::uint32_t half = magnitude < (113u << 23) ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // >= 65520
  half = magnitude > 0x7f800000u ? nan : half;
  return static_cast<std::uint16_t>(sign | half);
}

DGAP_INLINE float from_half(std::uint16_t half) {
  const std::uint32_t sign = (std::uint32_t{half} & 0x8000u) << 16;
  const std::uint32_t magnitude = std::uint32_t{half} & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t bits = magnitude < 0x400u ? std::bit_cast<std::uint32_t>(small) : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  return std::bit_cast<float>(bits | sign);
}

/// x rounded to binary16 and back.
DGAP_INLINE float round_to_half(float x) { return from_half(to_half(x)); }

/// bfloat16, round half to even.
DGAP_INLINE std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

DGAP_INLINE float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16);
}

void to_half(const float* from, std::uint16_t* to, std::size_t n);
void from_half(const std::uint16_t* from, float* to, std::size_t n);
void to_bfloat16(const float* from, std::uint16_t* to, std::size_t n);
void from_bfloat16(const std::uint16_t* from, float* to, std::size_t n);

}  // namespace dgap::base
