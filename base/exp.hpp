#pragma once
#include <bit>
#include <cstdint>

#include "base/multiversion.hpp"

namespace dgap::base {

/// exp(x) in single precision: branch-free, the same bits at every dispatch level, relative error
/// below 1e-7 * 1.5 where the result is a normal number. x <= -87.3 gives 0, x >= 88.7 gives +inf,
/// NaN stays NaN. Own, because the C library's results differ between versions.
DGAP_INLINE float exp_f32(float x) {
  const float clamped = x < -88.0f ? -88.0f : (x > 89.0f ? 89.0f : x);
  const float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // Two factors of 2^(n/2), so that results near the ends of the range are scaled without overflow.
  const std::int32_t k = static_cast<std::int32_t>(n);
  const std::int32_t half = k >> 1;
  const float s1 = std::bit_cast<float>((half + 127) << 23);
  const float s2 = std::bit_cast<float>((k - half + 127) << 23);
  float y = p * s1 * s2;
  y = x < -87.33654f ? 0.0f : y;
  y = x > 88.72283f ? std::bit_cast<float>(0x7f800000) : y;
  return x != x ? x : y;
}

/// exp(x) in double precision, same rules: relative error below 4e-16, x < -708 gives 0, x > 709.7
/// gives +inf.
DGAP_INLINE double exp_f64(double x) {
  const double clamped = x < -709.0 ? -709.0 : (x > 710.0 ? 710.0 : x);
  const double shifted = clamped * 1.4426950408889634 + 6755399441055744.0;  // 1.5 * 2^52
  const double n = shifted - 6755399441055744.0;
  const double r = (clamped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.6059043836821613e-10;  // Taylor to r^13: |r| <= 0.3466, remainder below 1e-17
  p = p * r + 2.0876756987868099e-9;
  p = p * r + 2.5052108385441720e-8;
  p = p * r + 2.7557319223985893e-7;
  p = p * r + 2.7557319223985888e-6;
  p = p * r + 2.4801587301587302e-5;
  p = p * r + 1.9841269841269841e-4;
  p = p * r + 1.3888888888888889e-3;
  p = p * r + 8.3333333333333333e-3;
  p = p * r + 4.1666666666666664e-2;
  p = p * r + 1.6666666666666666e-1;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  const std::int64_t k = std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(6755399441055744.0);
  const std::int64_t half = k >> 1;
  const double s1 = std::bit_cast<double>((half + 1023) << 52);
  const double s2 = std::bit_cast<double>((k - half + 1023) << 52);
  double y = p * s1 * s2;
  y = x < -708.0 ? 0.0 : y;
  y = x > 709.7 ? std::bit_cast<double>(std::int64_t{0x7ff0000000000000}) : y;
  return x != x ? x : y;
}

}  // namespace dgap::base
