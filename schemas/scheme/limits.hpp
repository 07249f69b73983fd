#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "schemas/scheme/scheme.hpp"

/// What the scheme's reader, its presets and its checks share.
namespace dgap::schemas {

inline constexpr std::array kBitWidths = {1, 2, 4, 8, 16};
inline constexpr int kMaxWindow = 1 << 20;
inline constexpr int kMaxSinks = 1 << 16;
/// Smaller groups cost more in scales than in codes, and min-max codes of tiny groups are lossless.
inline constexpr int kMinGroup = 8;
inline constexpr int kMaxGroup = 1024;
/// Largest integer that every JSON reader keeps exactly (2^53 - 1).
inline constexpr std::uint64_t kMaxSeed = (std::uint64_t{1} << 53) - 1;

inline bool is_bit_width(int bits) {
  return std::find(kBitWidths.begin(), kBitWidths.end(), bits) != kBitWidths.end();
}

inline Quantizer default_quantizer(int bits) {
  switch (bits) {
    case 1:
      return Quantizer::sign_mean;
    case 2:
      return Quantizer::lloyd_max;
    case 16:
      return Quantizer::exact;
    default:
      return Quantizer::symmetric;
  }
}

/// The scheme of a family (centred, rotated, uniform) at these bits, window 0, without a name.
Scheme family_scheme(std::string_view family, int key_bits, int value_bits);

/// KIVI, arXiv:2402.02750: keys by channel in groups of `group` tokens, flushed when R have
/// gathered; values by token in groups of `group` channels, the newest R exact. R 128, no name.
Scheme kivi_scheme(int key_bits, int value_bits, int group);

}  // namespace dgap::schemas
