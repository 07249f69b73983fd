#pragma once
#include <cstdint>

#include "base/half.hpp"

namespace dgap::engine {

/// FP16 bits of x, with ±65504 where it would overflow, so that what is read back stays finite.
DGAP_INLINE std::uint16_t to_half_saturated(float x) {
  const float low = x > 65504.0f ? 65504.0f : x;
  return base::to_half(low < -65504.0f ? -65504.0f : low);
}

/// x rounded to FP16 so, as a float.
DGAP_INLINE float round_saturated(float x) { return base::from_half(to_half_saturated(x)); }

}  // namespace dgap::engine
