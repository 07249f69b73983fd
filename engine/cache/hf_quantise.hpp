#pragma once
#include <cstdint>
#include <span>

#include "engine/cache/hf_groups.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {

/// Scale and zero point of a group, as FP16 bits.
struct HfScale {
  std::uint16_t scale = 0, zero = 0;
};

/// optimum-quanto's MaxOptimizer and quantize_affine in FP16, every step rounded: scale = (max -
/// min) / (2^b - 1), zero = -min, code = round((x + zero) / scale). One code a byte, scales
/// [groups]. Finite x that is FP16. Parallel over groups.
void quantise_quanto(int bits, const HfGroups& groups, std::span<const float> x,
                     std::span<std::uint8_t> codes, std::span<HfScale> scales);
/// scale * code - zero, both steps rounded to FP16.
DGAP_INLINE float read_quanto(float code, float scale, float zero) {
  return round_saturated(round_saturated(scale * code) - zero);
}

/// hqq's Quantizer.quantize with its proximal solver on the CPU (f32, p = 0.7, beta = 10, at most
/// 20 steps, until the mean error of the whole tensor grows), then scale and zero rounded to FP16.
void quantise_hqq(int bits, const HfGroups& groups, std::span<const float> x,
                  std::span<std::uint8_t> codes, std::span<HfScale> scales);
/// (code - zero) * scale, both steps rounded to FP16.
DGAP_INLINE float read_hqq(float code, float scale, float zero) {
  return round_saturated(round_saturated(code - zero) * scale);
}

}  // namespace dgap::engine
