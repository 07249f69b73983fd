#include "base/half.hpp"
#include "engine/cache/codec.hpp"
#include "engine/cache/lanes.hpp"

namespace dgap::engine {
namespace {

using base::from_half;
using schemas::GroupAxis;
using schemas::Quantizer;

/// A code's value, given its group's scale and minimum, for one code or sixteen.
struct SignMean {
  template <class Int, class Float>
  static DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) {
    out = __builtin_bit_cast(Float, __builtin_bit_cast(Int, scale) ^ ((code ^ 1) << 31));
  }
};
struct LloydMax {
  template <class Int, class Float>
  static DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) {
    const Int inner = -(((code + 1) >> 1) & 1);  // all ones for codes 1 and 2
    const Int magnitude = (inner & __builtin_bit_cast(Int, scale * kLloydInner)) |
                          (~inner & __builtin_bit_cast(Int, scale * kLloydOuter));
    out = __builtin_bit_cast(Float, magnitude ^ (((code >> 1) ^ 1) << 31));
  }
};
template <int kBits>
struct Symmetric {
  template <class Int, class Float>
  static DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) {
    to_float(code - ((1 << (kBits - 1)) - 1), out);
    out = out * scale;
  }
};
struct Asymmetric {
  template <class Int, class Float>
  static DGAP_INLINE void value(const Int& code, const Float& scale, const Float& minimum,
                                Float& out) {
    to_float(code, out);
    out = out * scale + minimum;
  }
};

struct Tile {
  std::int64_t from, to;
  const std::uint8_t* codes;
  const std::uint16_t* scales;
  const std::uint16_t* minima;  // null where the quantiser has none
  float* out;
};

DGAP_INLINE float minimum_at(const Tile& tile, std::size_t i) {
  return tile.minima == nullptr ? 0.0f : from_half(tile.minima[i]);
}

template <int kBits, class Level>
DGAP_INLINE void decode_lanes(const std::uint8_t* packed, const Floats16& scale,
                              const Floats16& minimum, float* out) {
  Ints16 codes;
  Floats16 values;
  unpack<kBits>(packed, codes);
  Level::value(codes, scale, minimum, values);
  store(values, out);
}

/// Groups of a multiple of 16 channels of one token.
template <int kBits, class Level>
DGAP_INLINE void decode_tokens(const Codec& codec, const Tile& tile) {
  const std::size_t groups = codec.step_scales();
  const auto first = static_cast<std::size_t>(tile.from);
  const std::uint8_t* row = tile.codes + first * codec.row_bytes();
  float* out = tile.out;
  for (std::size_t g = first * groups; g < static_cast<std::size_t>(tile.to) * groups; ++g) {
    Floats16 scale, minimum;
    broadcast(from_half(tile.scales[g]), scale);
    broadcast(minimum_at(tile, g), minimum);
    for (int c = 0; c < codec.group; c += 16, row += 2 * kBits, out += 16)
      decode_lanes<kBits, Level>(row, scale, minimum, out);
  }
}

/// Groups of tokens of one channel, 16 channels at a time: their scales stay in registers over the
/// tokens of a group.
template <int kBits, class Level>
DGAP_INLINE void decode_channels(const Codec& codec, const Tile& tile) {
  const std::size_t row_bytes = codec.row_bytes();
  for (std::int64_t t = tile.from; t < tile.to;) {
    const std::int64_t group = t / codec.group;
    const std::int64_t group_end = (group + 1) * codec.group;
    const std::int64_t end = group_end < tile.to ? group_end : tile.to;
    for (int c = 0; c < codec.width; c += 16) {
      const auto first = static_cast<std::size_t>(group * codec.width + c);
      Floats16 scale, minimum;
      for (int i = 0; i < 16; ++i)
        scale[i] = from_half(tile.scales[first + static_cast<std::size_t>(i)]);
      for (int i = 0; i < 16; ++i)
        minimum[i] = minimum_at(tile, first + static_cast<std::size_t>(i));
      for (std::int64_t token = t; token < end; ++token)
        decode_lanes<kBits, Level>(
            tile.codes + static_cast<std::size_t>(token) * row_bytes + c / 8 * kBits, scale,
            minimum, tile.out + (token - tile.from) * codec.width + c);
    }
    t = end;
  }
}

/// Any width and group, one code at a time.
template <int kBits, class Level>
DGAP_INLINE void decode_any(const Codec& codec, const Tile& tile) {
  const bool by_token = codec.axis == GroupAxis::token;
  float* out = tile.out;
  for (std::int64_t t = tile.from; t < tile.to; ++t) {
    const std::uint8_t* row = tile.codes + static_cast<std::size_t>(t) * codec.row_bytes();
    const std::size_t first = static_cast<std::size_t>(t / codec.step()) * codec.step_scales();
    for (int c = 0; c < codec.width; ++c) {
      const std::size_t i = first + static_cast<std::size_t>(by_token ? c / codec.group : c);
      Level::value(code_at(kBits, row, static_cast<std::size_t>(c)), from_half(tile.scales[i]),
                   minimum_at(tile, i), *out++);
    }
  }
}

template <int kBits, class Level>
DGAP_INLINE void decode_tile(const Codec& codec, const Tile& tile) {
  const int aligned = codec.axis == GroupAxis::token ? codec.group : codec.width;
  if (aligned % 16 != 0)
    decode_any<kBits, Level>(codec, tile);
  else if (codec.axis == GroupAxis::token)
    decode_tokens<kBits, Level>(codec, tile);
  else
    decode_channels<kBits, Level>(codec, tile);
}

template <int kBits>
DGAP_INLINE void decode_bits(const Codec& codec, const Tile& tile) {
  if constexpr (kBits == 1) {
    if (codec.quantizer == Quantizer::sign_mean) return decode_tile<kBits, SignMean>(codec, tile);
  }
  if constexpr (kBits == 2) {
    if (codec.quantizer == Quantizer::lloyd_max) return decode_tile<kBits, LloydMax>(codec, tile);
  }
  if constexpr (kBits > 1) {
    if (codec.quantizer == Quantizer::symmetric)
      return decode_tile<kBits, Symmetric<kBits>>(codec, tile);
  }
  decode_tile<kBits, Asymmetric>(codec, tile);
}

}  // namespace

DGAP_MULTIVERSION void decode(const Codec& codec, std::int64_t from, std::int64_t to,
                              const std::uint8_t* codes, const std::uint16_t* scales,
                              const std::uint16_t* minima, float* out) {
  const Tile tile{from, to, codes, scales, codec.has_minima() ? minima : nullptr, out};
  switch (codec.bits) {
    case 1:
      return decode_bits<1>(codec, tile);
    case 2:
      return decode_bits<2>(codec, tile);
    case 4:
      return decode_bits<4>(codec, tile);
    case 8:
      return decode_bits<8>(codec, tile);
    default:
      return;
  }
}

}  // namespace dgap::engine
