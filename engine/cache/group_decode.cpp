#include "base/half.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/group_decode_avx512.hpp"
#include "engine/cache/group_levels.hpp"
#include "engine/cache/lanes.hpp"

namespace dgap::engine {
namespace {

using base::from_half;
using schemas::GroupAxis;

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
DGAP_INLINE void decode_lanes(const Level& level, const std::uint8_t* packed, const Floats16& scale,
                              const Floats16& minimum, float* out) {
  Ints16 codes;
  Floats16 values;
  unpack<kBits>(packed, codes);
  level.value(codes, scale, minimum, values);
  store(values, out);
}

/// Groups of a multiple of 16 channels of one token.
template <int kBits, class Level>
DGAP_INLINE void decode_tokens(const Level& level, const GroupFormat& format, const Tile& tile) {
  const std::size_t groups = format.step_scales();
  const auto first = static_cast<std::size_t>(tile.from);
  const std::uint8_t* row = tile.codes + first * format.row_bytes();
  float* out = tile.out;
  constexpr std::size_t kSome = 32;  // groups whose numbers are widened together, in vectors
  const std::size_t end = static_cast<std::size_t>(tile.to) * groups;
  for (std::size_t g = first * groups; g < end; g += kSome) {
    const std::size_t count = end - g < kSome ? end - g : kSome;
    float scales[kSome], minima[kSome] = {};
    for (std::size_t i = 0; i < count; ++i) scales[i] = from_half(tile.scales[g + i]);
    if (tile.minima != nullptr)
      for (std::size_t i = 0; i < count; ++i) minima[i] = from_half(tile.minima[g + i]);
    for (std::size_t i = 0; i < count; ++i) {
      Floats16 scale, minimum;
      broadcast(scales[i], scale);
      broadcast(minima[i], minimum);
      for (int c = 0; c < format.group; c += 16, row += 2 * kBits, out += 16)
        decode_lanes<kBits>(level, row, scale, minimum, out);
    }
  }
}

/// Groups of tokens of one channel, 16 channels at a time: their scales stay in registers over the
/// tokens of a group.
template <int kBits, class Level>
DGAP_INLINE void decode_channels(const Level& level, const GroupFormat& format, const Tile& tile) {
  const std::size_t row_bytes = format.row_bytes();
  for (std::int64_t t = tile.from; t < tile.to;) {
    const std::int64_t group = t / format.group;
    const std::int64_t group_end = (group + 1) * format.group;
    const std::int64_t end = group_end < tile.to ? group_end : tile.to;
    for (int c = 0; c < format.width; c += 16) {
      const auto first = static_cast<std::size_t>(group * format.width + c);
      Floats16 scale, minimum;
      for (int i = 0; i < 16; ++i)
        scale[i] = from_half(tile.scales[first + static_cast<std::size_t>(i)]);
      for (int i = 0; i < 16; ++i)
        minimum[i] = minimum_at(tile, first + static_cast<std::size_t>(i));
      for (std::int64_t token = t; token < end; ++token)
        decode_lanes<kBits>(
            level, tile.codes + static_cast<std::size_t>(token) * row_bytes + c / 8 * kBits, scale,
            minimum, tile.out + (token - tile.from) * format.width + c);
    }
    t = end;
  }
}

/// Any width and group, one code at a time.
template <int kBits, class Level>
DGAP_INLINE void decode_any(const Level& level, const GroupFormat& format, const Tile& tile) {
  const bool by_token = format.axis == GroupAxis::token;
  float* out = tile.out;
  for (std::int64_t t = tile.from; t < tile.to; ++t) {
    const std::uint8_t* row = tile.codes + static_cast<std::size_t>(t) * format.row_bytes();
    const std::size_t first = static_cast<std::size_t>(t / format.step()) * format.step_scales();
    for (int c = 0; c < format.width; ++c) {
      const std::size_t i = first + static_cast<std::size_t>(by_token ? c / format.group : c);
      level.value(code_at(kBits, row, static_cast<std::size_t>(c)), from_half(tile.scales[i]),
                  minimum_at(tile, i), *out++);
    }
  }
}

template <int kBits, class Level>
DGAP_INLINE void decode_tile(const Level& level, const GroupFormat& format, const Tile& tile) {
  const int aligned = format.axis == GroupAxis::token ? format.group : format.width;
  if (aligned % 16 != 0)
    decode_any<kBits>(level, format, tile);
  else if (format.axis == GroupAxis::token)
    decode_tokens<kBits>(level, format, tile);
  else
    decode_channels<kBits>(level, format, tile);
}

template <int kBits>
DGAP_INLINE void decode_bits(const GroupFormat& format, const Tile& tile) {
  with_level<kBits>(
      format, [&](const auto& level)
                  __attribute__((always_inline)) { decode_tile<kBits>(level, format, tile); });
}

DGAP_MULTIVERSION void decode(const GroupFormat& format, const Tile& tile) {
  switch (format.bits) {
    case 1:
      return decode_bits<1>(format, tile);
    case 2:
      return decode_bits<2>(format, tile);
    case 3:
      return decode_bits<3>(format, tile);
    case 4:
      return decode_bits<4>(format, tile);
    case 5:
      return decode_bits<5>(format, tile);
    case 8:
      return decode_bits<8>(format, tile);
    default:
      return;
  }
}

}  // namespace

void decode_groups(const GroupFormat& format, std::int64_t from, std::int64_t to,
                   const std::uint8_t* codes, const std::uint16_t* scales,
                   const std::uint16_t* minima, float* out) {
  if (!format.has_minima()) minima = nullptr;
  if (decode_groups_avx512(format, from, to, codes, scales, minima, out)) return;
  decode(format, {from, to, codes, scales, minima, out});
}

}  // namespace dgap::engine
