#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/multiversion.hpp"

namespace dgap::engine {

/// Values of each end of a row of `width` that are kept exactly: the exact-k form of the quantiles
/// (1 ± share) / 2 with interpolation.
int outliers_per_end(double share, int width);

/// Range of a row without its outliers, as FP16 values: offset the middle, scale half the width.
struct RowRange {
  float offset = 0.0f, scale = 0.0f;
};

/// Marks the `per_end` largest values of x as outliers, of equals the lower channels, then the
/// smallest of the others likewise; finite x. Returns the range of the rest.
RowRange mark_outliers(std::span<const float> x, int per_end,
                       std::vector<std::uint8_t>& is_outlier);

/// (x - offset) / scale; 0 where the scale is.
DGAP_INLINE float to_unit(float x, float offset, float scale) {
  return scale > 0.0f ? (x - offset) / scale : 0.0f;
}

/// What calibration and codes make of a value: NaN, infinity and what is infinity in FP16 are 0, as
/// in KVQuant.
float finite_or_zero(float x);

}  // namespace dgap::engine
