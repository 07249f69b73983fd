#include <cmath>
#include <cstring>
#include <limits>

#include "engine/cache/codec.hpp"
#include "engine/cache/lanes.hpp"
#include "engine/cache/rows.hpp"
#include "engine/cache/saturate.hpp"
#include "schemas/scheme/limits.hpp"

namespace dgap::engine {
namespace {

using base::from_half;
using schemas::GroupAxis;
using schemas::Quantizer;

constexpr bool is_asymmetric(Quantizer quantizer) {
  return quantizer == Quantizer::asymmetric || quantizer == Quantizer::asymmetric_fp16;
}

/// Scale and minimum of a group, as stored.
struct Range {
  std::uint16_t scale = 0, minimum = 0;
};

/// x[0 .. n), 0 < n < 16, then `fill`.
DGAP_INLINE void load_tail(const float* x, int n, float fill, Floats16& out) {
  float lanes[16];
  for (int l = 0; l < 16; ++l) lanes[l] = l < n ? x[l] : fill;
  load(lanes, out);
}

/// Sum in f64 of the n values' squares, or magnitudes: value i goes to lane i mod kLanes, lanes are
/// folded in halves.
template <bool kSquares>
DGAP_INLINE double lane_sum(const float* x, int n) {
  static_assert(base::kLanes == 16);
  Doubles8 low{}, high{};
  const auto add = [&](const Floats16& values) __attribute__((always_inline)) {
    Doubles8 a, b;
    to_double(values, a, b);
    if constexpr (kSquares) {
      low = low + a * a;
      high = high + b * b;
    } else {
      low = low + (a < 0.0 ? -a : a);
      high = high + (b < 0.0 ? -b : b);
    }
  };
  Floats16 values;
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    load(x + i, values);
    add(values);
  }
  if (i < n) {
    load_tail(x + i, n - i, 0.0f, values);
    add(values);
  }
  low = low + high;
  double lanes[8];
  std::memcpy(lanes, &low, sizeof lanes);
  for (int half = 4; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

/// The larger one; x is ignored where it is NaN.
DGAP_INLINE float larger(float x, float best) { return x > best ? x : best; }

/// Largest sign * x, or |x| where kMagnitude; NaN is ignored. `start` where nothing is larger.
template <bool kMagnitude>
DGAP_INLINE float lane_max(const float* x, int n, float sign, float start) {
  Floats16 values, best;
  broadcast(start, best);
  for (int i = 0; i < n; i += 16) {
    if (i + 16 <= n)
      load(x + i, values);
    else
      load_tail(x + i, n - i, x[i], values);
    if constexpr (kMagnitude)
      values = __builtin_bit_cast(Floats16, __builtin_bit_cast(Ints16, values) & 0x7fffffff);
    else
      values = values * sign;
    best = values > best ? values : best;
  }
  float lanes[16];
  store(best, lanes);
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] = larger(lanes[l + half], lanes[l]);
  return lanes[0];
}

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

template <Quantizer kQuantizer>
DGAP_INLINE Range encode_group(const float* x, int n, int bits, std::int32_t* codes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Range range;
  if constexpr (kQuantizer == Quantizer::sign_mean) {
    range.scale = to_half_saturated(static_cast<float>(lane_sum<false>(x, n) / n));
    encode_lanes(SignMean{from_half(range.scale) > 0.0f ? 0.0f : kInfinity}, x, n, codes);
  } else if constexpr (kQuantizer == Quantizer::lloyd_max) {
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
DGAP_INLINE void encode_tokens(const Codec& codec, std::int64_t rows, const float* x,
                               std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) {
  std::int32_t lanes[kMaxHeadDim + 16];
  std::uint8_t row[kMaxHeadDim];
  for (std::int64_t r = 0; r < rows; ++r, x += codec.width) {
    for (int c = 0; c < codec.width; c += codec.group) {
      const Range range = encode_group<kQuantizer>(x + c, codec.group, codec.bits, lanes + c);
      *scales++ = range.scale;
      if (is_asymmetric(kQuantizer)) *minima++ = range.minimum;
    }
    narrow(lanes, codec.width, row);
    pack_codes(codec.bits, row, static_cast<std::size_t>(codec.width), codes);
    codes += codec.row_bytes();
  }
}

/// One group of tokens, channel by channel; a code's bits are or-ed into its token's row.
template <Quantizer kQuantizer>
DGAP_INLINE void encode_channels(const Codec& codec, const float* x, std::uint8_t* codes,
                                 std::uint16_t* scales, std::uint16_t* minima) {
  float column[schemas::kMaxGroup];
  std::int32_t lanes[schemas::kMaxGroup + 16];
  const std::size_t row_bytes = codec.row_bytes();
  std::memset(codes, 0, static_cast<std::size_t>(codec.group) * row_bytes);
  for (int c = 0; c < codec.width; ++c) {
    for (int t = 0; t < codec.group; ++t) column[t] = x[t * codec.width + c];
    const Range range = encode_group<kQuantizer>(column, codec.group, codec.bits, lanes);
    scales[c] = range.scale;
    if (is_asymmetric(kQuantizer)) minima[c] = range.minimum;
    std::uint8_t* byte = codes + c * codec.bits / 8;
    const int shift = c * codec.bits % 8;
    for (int t = 0; t < codec.group; ++t, byte += row_bytes)
      *byte = static_cast<std::uint8_t>(*byte | (lanes[t] << shift));
  }
}

template <Quantizer kQuantizer>
DGAP_INLINE void encode_all(const Codec& codec, std::int64_t rows, const float* x,
                            std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) {
  if (codec.axis == GroupAxis::token) {
    encode_tokens<kQuantizer>(codec, rows, x, codes, scales, minima);
    return;
  }
  for (std::int64_t t = 0; t < rows; t += codec.group) {
    const std::size_t scale = static_cast<std::size_t>(t / codec.group) * codec.step_scales();
    encode_channels<kQuantizer>(codec, x + t * codec.width,
                                codes + static_cast<std::size_t>(t) * codec.row_bytes(),
                                scales + scale, codec.has_minima() ? minima + scale : nullptr);
  }
}

}  // namespace

Codec::Codec(const schemas::TensorScheme& tensor, int head_dim)
    : quantizer(tensor.quantizer),
      bits(tensor.bits),
      axis(tensor.axis),
      width(head_dim),
      group(tensor.group_size == 0 ? head_dim : tensor.group_size) {}

DGAP_MULTIVERSION void encode(const Codec& codec, std::int64_t rows, const float* x,
                              std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) {
  switch (codec.quantizer) {
    case Quantizer::sign_mean:
      return encode_all<Quantizer::sign_mean>(codec, rows, x, codes, scales, minima);
    case Quantizer::lloyd_max:
      return encode_all<Quantizer::lloyd_max>(codec, rows, x, codes, scales, minima);
    case Quantizer::symmetric:
      return encode_all<Quantizer::symmetric>(codec, rows, x, codes, scales, minima);
    case Quantizer::asymmetric:
      return encode_all<Quantizer::asymmetric>(codec, rows, x, codes, scales, minima);
    case Quantizer::asymmetric_fp16:
      return encode_all<Quantizer::asymmetric_fp16>(codec, rows, x, codes, scales, minima);
    case Quantizer::exact:
      return;
  }
}

}  // namespace dgap::engine
