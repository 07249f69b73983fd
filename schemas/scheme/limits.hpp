#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "schemas/scheme/scheme.hpp"

/// What the scheme's reader, its presets and its checks share.
namespace dgap::schemas {

/// Of a preset's K<b>V<b>; some quantisers have 5 bits, too.
inline constexpr std::array kBitWidths = {1, 2, 3, 4, 8, 16};
inline constexpr int kMaxWindow = 1 << 20;
inline constexpr int kMaxSinks = 1 << 16;
/// Smaller groups cost more in scales than in codes, and min-max codes of tiny groups are lossless.
inline constexpr int kMinGroup = 8;
inline constexpr int kMaxGroup = 1024;
/// Channels of llama.cpp's blocks.
inline constexpr int kBlockSize = 32;
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
    case 3:
      return Quantizer::lloyd_max;
    case 16:
      return Quantizer::exact;
    default:
      return Quantizer::symmetric;
  }
}

inline bool is_block(Quantizer q) { return q >= Quantizer::q8_0 && q <= Quantizer::iq4_nl; }

/// The bits that a quantiser has.
struct BitWidths {
  unsigned mask = 0;  // bit b: b bits

  constexpr BitWidths(std::initializer_list<int> widths) {
    for (const int width : widths) mask |= 1u << width;
  }
  bool has(int bits) const { return bits >= 0 && bits <= 16 && (mask >> bits & 1u) != 0; }
  /// The only one, or 0.
  int single() const { return std::has_single_bit(mask) ? std::countr_zero(mask) : 0; }
  std::string shown() const {
    std::string text;
    for (int bits = 1; bits <= 16; ++bits)
      if (has(bits)) text += (text.empty() ? "" : ", ") + std::to_string(bits);
    return text;
  }
};

inline BitWidths bit_widths(Quantizer quantizer) {
  switch (quantizer) {
    case Quantizer::exact:
      return {16};
    case Quantizer::sign_mean:
      return {1};
    case Quantizer::lloyd_max:
    case Quantizer::normal_float:
    case Quantizer::kvquant:
      return {2, 3, 4};
    case Quantizer::symmetric:
      return {2, 3, 4, 8};
    case Quantizer::asymmetric:
    case Quantizer::asymmetric_fp16:
    case Quantizer::kvarn:
    case Quantizer::hqq:
      return {1, 2, 3, 4, 8};
    case Quantizer::quanto:
      return {2, 4};
    case Quantizer::codebook:
    case Quantizer::turboquant_mse:
    case Quantizer::turboquant_prod:
      return {1, 2, 3, 4};
    case Quantizer::q4_0:
    case Quantizer::q4_1:
    case Quantizer::iq4_nl:
      return {4};
    case Quantizer::q5_0:
    case Quantizer::q5_1:
      return {5};
    case Quantizer::q8_0:
    case Quantizer::fp8_e4m3:
    case Quantizer::fp8_e5m2:
      return {8};
  }
  return {};
}

/// Whether the quantiser has codes of so many bits.
inline bool fits(Quantizer quantizer, int bits) { return bit_widths(quantizer).has(bits); }

/// The scheme of a family (centred, rotated, uniform) at these bits, window 0, without a name.
Scheme family_scheme(std::string_view family, int key_bits, int value_bits);

/// KIVI, arXiv:2402.02750: keys by channel in groups of `group` tokens, flushed when R have
/// gathered; values by token in groups of `group` channels, the newest R exact. R 128, no name.
Scheme kivi_scheme(int key_bits, int value_bits, int group);

}  // namespace dgap::schemas
