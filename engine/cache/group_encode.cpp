#include <cmath>
#include <cstring>
#include <limits>

#include "engine/cache/ggml_blocks.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/reductions.hpp"
#include "engine/cache/rows.hpp"
#include "engine/cache/saturate.hpp"
#include "schemas/scheme/limits.hpp"

namespace dgap::engine {
namespace {

using base::from_half;
using schemas::GroupAxis;
using schemas::Quantizer;

/// Half to even; saturates at 65504. NaN becomes a number.
DGAP_INLINE void round_to_fp16(Floats16& x) {
  const Ints16 bits = __builtin_bit_cast(Ints16, x), sign = bits & ~0x7fffffff;
  const Ints16 magnitude = bits & 0x7fffffff;
  const Ints16 normal = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & ~0x1fff;
  // Below the normal halves: 0.5 has their spacing, 2^-24.
  const Floats16 small = (__builtin_bit_cast(Floats16, magnitude) + 0.5f) - 0.5f;
  Ints16 rounded = magnitude < (113 << 23) ? __builtin_bit_cast(Ints16, small) : normal;
  rounded = rounded > 0x477fe000 ? 0x477fe000 - Ints16{} : rounded;
  x = __builtin_bit_cast(Floats16, rounded | sign);
}

/// Codes of sixteen values. A scale of 0 gives codes 0; NaN gives the lowest code.
struct SignMean {
  float floor;  // +inf where the scale is 0
  DGAP_INLINE void operator()(const Floats16& x, Ints16& code) const { code = (x >= floor) & 1; }
};
struct LloydMax {
  float threshold;
  std::int32_t live;  // 0 where the scale is 0, else all ones
  DGAP_INLINE void operator()(const Floats16& x, Ints16& code) const {
    const Ints16 positive = (x >= 0.0f) & 1;
    const Floats16 magnitude =
        __builtin_bit_cast(Floats16, __builtin_bit_cast(Ints16, x) & 0x7fffffff);
    const Ints16 inner = (magnitude < threshold) & 1;
    code = (2 * positive + (positive ^ inner)) & live;
  }
};
/// Rounded half to even after clamping to [low, high], then counted from low.
struct Linear {
  float offset, scale, low, high;
  DGAP_INLINE void operator()(const Floats16& x, Ints16& code) const {
    Floats16 y = (x - offset) / scale;
    y = y >= low ? y : low - Floats16{};
    y = y > high ? high - Floats16{} : y;
    y = (y + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23
    code = __builtin_convertvector(y - low, Ints16);
  }
};
/// The same from 0 on, with every step rounded to FP16.
struct LinearFp16 {
  float offset, scale, high;
  DGAP_INLINE void operator()(const Floats16& x, Ints16& code) const {
    Floats16 y = x - offset;
    round_to_fp16(y);
    y = y / scale;
    round_to_fp16(y);
    y = y > 0.0f ? y : Floats16{};
    y = y > high ? high - Floats16{} : y;
    code = __builtin_convertvector((y + 12582912.0f) - 12582912.0f, Ints16);
  }
};
/// The nearest of ascending levels: how many thresholds are reached.
struct Nearest {
  const float* thresholds;
  int count;
  float scale;
  DGAP_INLINE void operator()(const Floats16& x, Ints16& code) const {
    code = Ints16{};
    for (int k = 0; k < count; ++k) code = code - (x >= thresholds[k] * scale);
  }
};
struct Zero {
  DGAP_INLINE void operator()(const Floats16&, Ints16& code) const { code = Ints16{}; }
};

/// codes gets n entries, and rubbish up to the next multiple of 16.
template <class Encode>
DGAP_INLINE void encode_lanes(const Encode& code_of, const float* x, int n, std::int32_t* codes) {
  Floats16 values;
  Ints16 lanes;
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    load(x + i, values);
    code_of(values, lanes);
    std::memcpy(codes + i, &lanes, sizeof lanes);
  }
  if (i == n) return;
  load_tail(x + i, n - i, 0.0f, values);
  code_of(values, lanes);
  std::memcpy(codes + i, &lanes, sizeof lanes);
}

/// Scale and codes of a group whose reads are levels * scale.
template <Quantizer kQuantizer>
DGAP_INLINE Range encode_levels(const GroupFormat& format, const float* x, int n,
                                std::int32_t* codes) {
  float size = 0.0f;
  if constexpr (kQuantizer == Quantizer::lloyd_max)
    size = static_cast<float>(std::sqrt(lane_sum<true>(x, n) / n));
  else if constexpr (kQuantizer == Quantizer::turboquant_mse)
    size = static_cast<float>(std::sqrt(lane_sum<true>(x, n)));
  else
    size = lane_max<true>(x, n, 1.0f, 0.0f);
  Range range{to_half_saturated(size), 0};
  const float scale = from_half(range.scale);
  if (!(scale > 0.0f)) {
    encode_lanes(Zero(), x, n, codes);
    return range;
  }
  encode_lanes(Nearest{format.thresholds, format.level_count - 1, scale}, x, n, codes);
  if (kQuantizer == Quantizer::turboquant_mse && format.norm_correction) {
    float direction[kMaxHeadDim];
    for (int i = 0; i < n; ++i) direction[i] = format.levels[codes[i]];
    range.scale =
        to_half_saturated(size / static_cast<float>(std::sqrt(lane_sum<true>(direction, n))));
  }
  return range;
}

template <Quantizer kQuantizer>
DGAP_INLINE Range encode_group(const GroupFormat& format, const float* x, int n,
                               std::int32_t* codes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int bits = format.bits;
  Range range;
  if constexpr (kQuantizer == Quantizer::sign_mean) {
    range.scale = to_half_saturated(static_cast<float>(lane_sum<false>(x, n) / n));
    encode_lanes(SignMean{from_half(range.scale) > 0.0f ? 0.0f : kInfinity}, x, n, codes);
  } else if constexpr (is_ggml_block(kQuantizer)) {
    range = encode_ggml_block<kQuantizer>(format, x, codes);
  } else if constexpr (kQuantizer == Quantizer::codebook ||
                       kQuantizer == Quantizer::turboquant_mse) {
    range = encode_levels<kQuantizer>(format, x, n, codes);
  } else if constexpr (kQuantizer == Quantizer::lloyd_max) {
    if (bits > 2) return encode_levels<kQuantizer>(format, x, n, codes);
    range.scale = to_half_saturated(static_cast<float>(std::sqrt(lane_sum<true>(x, n) / n)));
    const float scale = from_half(range.scale);
    encode_lanes(LloydMax{kLloydThreshold * scale, scale > 0.0f ? -1 : 0}, x, n, codes);
  } else {
    constexpr bool kSymmetric = kQuantizer == Quantizer::symmetric;
    const float top = static_cast<float>((1 << (kSymmetric ? bits - 1 : bits)) - 1);
    float minimum = 0.0f, reach = 0.0f;  // of the values around 0, or above the minimum
    if constexpr (kSymmetric) {
      reach = lane_max<true>(x, n, 1.0f, 0.0f);
    } else {
      range.minimum = to_half_saturated(-lane_max<false>(x, n, -1.0f, -kInfinity));
      minimum = from_half(range.minimum);
      reach = larger(lane_max<false>(x, n, 1.0f, -kInfinity) - minimum, 0.0f);
    }
    if constexpr (kQuantizer == Quantizer::asymmetric_fp16)
      reach = from_half(to_half_saturated(reach));
    range.scale = to_half_saturated(reach / top);
    const float scale = from_half(range.scale);
    if (scale > 0.0f && kQuantizer == Quantizer::asymmetric_fp16)
      encode_lanes(LinearFp16{minimum, scale, top}, x, n, codes);
    else if (scale > 0.0f)
      encode_lanes(Linear{minimum, scale, kSymmetric ? -top : 0.0f, top}, x, n, codes);
    else
      encode_lanes(Zero(), x, n, codes);
  }
  return range;
}

DGAP_INLINE void narrow(const std::int32_t* from, int n, std::uint8_t* to) {
  for (int i = 0; i < n; ++i) to[i] = static_cast<std::uint8_t>(from[i]);
}

template <Quantizer kQuantizer>
DGAP_INLINE void encode_tokens(const GroupFormat& format, std::int64_t rows, const float* x,
                               std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) {
  std::int32_t lanes[kMaxHeadDim + 16];
  std::uint8_t row[kMaxHeadDim];
  for (std::int64_t r = 0; r < rows; ++r, x += format.width) {
    for (int c = 0; c < format.width; c += format.group) {
      const Range range = encode_group<kQuantizer>(format, x + c, format.group, lanes + c);
      *scales++ = range.scale;
      if (format.has_minima()) *minima++ = range.minimum;
    }
    narrow(lanes, format.width, row);
    pack_codes(format.bits, row, static_cast<std::size_t>(format.width), codes);
    codes += format.row_bytes();
  }
}

/// One group of tokens, channel by channel; a code's bits are or-ed into its token's row.
template <Quantizer kQuantizer>
DGAP_INLINE void encode_channels(const GroupFormat& format, const float* x, std::uint8_t* codes,
                                 std::uint16_t* scales, std::uint16_t* minima) {
  float column[schemas::kMaxGroup];
  std::int32_t lanes[schemas::kMaxGroup + 16];
  const std::size_t row_bytes = format.row_bytes();
  std::memset(codes, 0, static_cast<std::size_t>(format.group) * row_bytes);
  for (int c = 0; c < format.width; ++c) {
    for (int t = 0; t < format.group; ++t) column[t] = x[t * format.width + c];
    const Range range = encode_group<kQuantizer>(format, column, format.group, lanes);
    scales[c] = range.scale;
    if (format.has_minima()) minima[c] = range.minimum;
    for (int t = 0; t < format.group; ++t)
      set_code(format.bits, codes + static_cast<std::size_t>(t) * row_bytes,
               static_cast<std::size_t>(c), lanes[t]);
  }
}

template <Quantizer kQuantizer>
DGAP_INLINE void encode_all(const GroupFormat& format, std::int64_t rows, const float* x,
                            std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) {
  if (format.axis == GroupAxis::token) {
    encode_tokens<kQuantizer>(format, rows, x, codes, scales, minima);
    return;
  }
  for (std::int64_t t = 0; t < rows; t += format.group) {
    const std::size_t scale = static_cast<std::size_t>(t / format.group) * format.step_scales();
    encode_channels<kQuantizer>(format, x + t * format.width,
                                codes + static_cast<std::size_t>(t) * format.row_bytes(),
                                scales + scale, format.has_minima() ? minima + scale : nullptr);
  }
}

}  // namespace

DGAP_MULTIVERSION void encode_groups(const GroupFormat& format, std::int64_t rows, const float* x,
                                     std::uint8_t* codes, std::uint16_t* scales,
                                     std::uint16_t* minima) {
  const auto run = [&]<Quantizer kQuantizer>() __attribute__((always_inline)) {
    encode_all<kQuantizer>(format, rows, x, codes, scales, minima);
  };
  switch (format.quantizer) {
    case Quantizer::sign_mean:
      return run.template operator()<Quantizer::sign_mean>();
    case Quantizer::lloyd_max:
      return run.template operator()<Quantizer::lloyd_max>();
    case Quantizer::symmetric:
      return run.template operator()<Quantizer::symmetric>();
    case Quantizer::asymmetric:
      return run.template operator()<Quantizer::asymmetric>();
    case Quantizer::asymmetric_fp16:
      return run.template operator()<Quantizer::asymmetric_fp16>();
    case Quantizer::codebook:
    case Quantizer::normal_float:  // the same formula over a table of its own
      return run.template operator()<Quantizer::codebook>();
    case Quantizer::q8_0:
      return run.template operator()<Quantizer::q8_0>();
    case Quantizer::q4_0:
      return run.template operator()<Quantizer::q4_0>();
    case Quantizer::q4_1:
      return run.template operator()<Quantizer::q4_1>();
    case Quantizer::q5_0:
      return run.template operator()<Quantizer::q5_0>();
    case Quantizer::q5_1:
      return run.template operator()<Quantizer::q5_1>();
    case Quantizer::iq4_nl:
      return run.template operator()<Quantizer::iq4_nl>();
    case Quantizer::turboquant_mse:
      return run.template operator()<Quantizer::turboquant_mse>();
    default:  // not a quantiser of groups
      return;
  }
}

}  // namespace dgap::engine
