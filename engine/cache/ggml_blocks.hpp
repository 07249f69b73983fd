#pragma once
#include <cmath>
#include <cstdint>

#include "base/half.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/reductions.hpp"
#include "engine/cache/saturate.hpp"

/// llama.cpp's block types as codes: ggml-quants.c's reference quantisers, operation by operation
/// (codes from the f32 scale, its FP16 rounding stored). Codes are packed as everywhere else; what
/// is read is what ggml reads.
namespace dgap::engine {

inline constexpr int kGgmlBlock = 32;

/// Scale and minimum of a group, as stored.
struct Range {
  std::uint16_t scale = 0, minimum = 0;
};

constexpr bool is_ggml_block(schemas::Quantizer q) {
  using enum schemas::Quantizer;
  return q == q8_0 || q == q4_0 || q == q4_1 || q == q5_0 || q == q5_1 || q == iq4_nl;
}

/// The first value of the largest magnitude, with its sign; NaN is ignored.
DGAP_INLINE float signed_max(const float* x) {
  float magnitude = 0.0f, best = 0.0f;
  for (int i = 0; i < kGgmlBlock; ++i) {
    const float size = x[i] < 0.0f ? -x[i] : x[i];
    best = size > magnitude ? x[i] : best;
    magnitude = size > magnitude ? size : magnitude;
  }
  return best;
}

/// trunc(min((x - offset) * inverse + shift, top)); NaN gives 0.
DGAP_INLINE void truncated(const float* x, float offset, float inverse, float shift, float top,
                           std::int32_t* codes) {
  for (int i = 0; i < kGgmlBlock; ++i) {
    float y = (x[i] - offset) * inverse + shift;
    y = y >= 0.0f ? y : 0.0f;
    y = y > top ? top : y;
    codes[i] = static_cast<std::int32_t>(y);
  }
}

/// round(x * inverse), halves away from zero, as codes around 127.
DGAP_INLINE void rounded_away(const float* x, float inverse, std::int32_t* codes) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: rounds to even
  for (int i = 0; i < kGgmlBlock; ++i) {
    float y = x[i] * inverse;
    y = y >= -127.0f ? y : -127.0f;
    y = y > 127.0f ? 127.0f : y;
    float r = (y + kMagic) - kMagic;
    r = y > 0.0f && y - r == 0.5f ? r + 1.0f : r;
    r = y < 0.0f && y - r == -0.5f ? r - 1.0f : r;
    codes[i] = static_cast<std::int32_t>(r) + 127;
  }
}

/// The nearest level of iq4_nl; a tie goes to the higher one.
DGAP_INLINE std::int32_t nearest_iq4_nl(const float* levels, float x) {
  std::int32_t code = 0;
  for (int k = 1; k < 16; ++k)  // x - low and high - x are compared as ggml does
    code += x >= levels[k] || !(x - levels[k - 1] < levels[k] - x) ? 1 : 0;
  return x == x ? code : 0;
}

DGAP_INLINE Range encode_iq4_nl(const float* levels, const float* x, std::int32_t* codes) {
  const float top = signed_max(x);
  if ((top < 0.0f ? -top : top) < 1e-15f) {
    for (int i = 0; i < kGgmlBlock; ++i) codes[i] = 0;
    return {};
  }
  const float inverse = 1.0f / (top / levels[0]);
  float products = 0.0f, squares = 0.0f;
  for (int i = 0; i < kGgmlBlock; ++i) {
    codes[i] = nearest_iq4_nl(levels, inverse * x[i]);
    const float level = levels[codes[i]], weight = x[i] * x[i];
    products += weight * level * x[i];
    squares += weight * level * level;
  }
  return {to_half_saturated(products / squares), 0};
}

template <schemas::Quantizer kQuantizer>
DGAP_INLINE Range encode_ggml_block(const GroupFormat& format, const float* x,
                                    std::int32_t* codes) {
  using schemas::Quantizer;
  if constexpr (kQuantizer == Quantizer::iq4_nl) {
    return encode_iq4_nl(format.levels, x, codes);
  } else if constexpr (kQuantizer == Quantizer::q8_0) {
    const float scale = lane_max<true>(x, kGgmlBlock, 1.0f, 0.0f) / 127.0f;
    rounded_away(x, scale != 0.0f ? 1.0f / scale : 0.0f, codes);
    return {to_half_saturated(scale), 0};
  } else if constexpr (kQuantizer == Quantizer::q4_0 || kQuantizer == Quantizer::q5_0) {
    constexpr float kHalf = kQuantizer == Quantizer::q4_0 ? 8.0f : 16.0f;
    const float scale = signed_max(x) / -kHalf;
    truncated(x, 0.0f, scale != 0.0f ? 1.0f / scale : 0.0f, kHalf + 0.5f, 2.0f * kHalf - 1.0f,
              codes);
    return {to_half_saturated(scale), 0};
  } else {
    constexpr float kTop = kQuantizer == Quantizer::q4_1 ? 15.0f : 31.0f;
    constexpr float kInfinity = __builtin_inff();
    const float minimum = -lane_max<false>(x, kGgmlBlock, -1.0f, -kInfinity);
    const float scale = (lane_max<false>(x, kGgmlBlock, 1.0f, -kInfinity) - minimum) / kTop;
    truncated(x, minimum, scale != 0.0f ? 1.0f / scale : 0.0f, 0.5f, kTop, codes);
    return {to_half_saturated(scale), to_half_saturated(minimum)};
  }
}

}  // namespace dgap::engine
