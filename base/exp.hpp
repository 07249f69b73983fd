#pragma once
#include <bit>
#include <cstdint>

#include "base/fused.hpp"
#include "base/multiversion.hpp"

namespace dgap::base {

constexpr float kRoundF32 = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer

/// a b + c, in one rounding or in two.
template <bool fused>
DGAP_INLINE float product_sum(float a, float b, float c) {
  if constexpr (fused) return multiply_add(a, b, c);
  return a * b + c;
}

/// x / ln 2 rounded to an integer n, plus 1.5 * 2^23: the low bits are n in two's complement.
template <bool fused = false>
DGAP_INLINE float exp_shifted_f32(float x) {
  return product_sum<fused>(x, 1.44269504f, kRoundF32);
}

/// exp(x - n ln 2) for the n in `shifted`, near 1.
template <bool fused = false>
DGAP_INLINE float exp_rest_f32(float x, float shifted) {
  const float n = shifted - kRoundF32;
  const float high = product_sum<fused>(n, -0.693359375f, x);
  const float r = product_sum<fused>(n, 2.12194440e-4f, high);
  float p = 1.9875691500e-4f;
  p = product_sum<fused>(p, r, 1.3981999507e-3f);
  p = product_sum<fused>(p, r, 8.3334519073e-3f);
  p = product_sum<fused>(p, r, 4.1665795894e-2f);
  p = product_sum<fused>(p, r, 1.6666665459e-1f);
  p = product_sum<fused>(p, r, 5.0000001201e-1f);
  return product_sum<fused>(p, r * r, r) + 1.0f;
}

/// exp(x) for -87 <= x <= 88, where it is a normal number: no checks.
template <bool fused = false>
DGAP_INLINE float exp_normal_f32(float x) {
  const float shifted = exp_shifted_f32<fused>(x);
  // Times 2^n by addition to the exponent, in words that wrap.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(exp_rest_f32<fused>(x, shifted)) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

/// exp(x) in single precision: branch-free, the same bits at every dispatch level, relative error
/// below 1e-7 * 1.5 where the result is a normal number. x <= -87.3 gives 0, x >= 88.7 gives +inf,
/// NaN stays NaN. Own, because the C library's results differ between versions.
DGAP_INLINE float exp_f32(float x) {
  const float clamped = x < -88.0f ? -88.0f : (x > 89.0f ? 89.0f : x);
  const float shifted = exp_shifted_f32(clamped);
  // Two factors of 2^(n/2), so that results near the ends of the range are scaled without overflow.
  const std::int32_t k =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRoundF32);
  const std::int32_t half = k >> 1;
  const float s1 = std::bit_cast<float>((half + 127) << 23);
  const float s2 = std::bit_cast<float>((k - half + 127) << 23);
  float y = exp_rest_f32(clamped, shifted) * s1 * s2;
  y = x < -87.33654f ? 0.0f : y;
  y = x > 88.72283f ? std::bit_cast<float>(0x7f800000) : y;
  return x != x ? x : y;
}

/// exp(r) for |r| <= ln 2 / 2: 1 + r + r^2 q(r) with q interpolated at Chebyshev nodes, error
/// 2e-17.
DGAP_INLINE double exp_reduced_f64(double r) {
  double q = 2.5100424157005067e-08;
  q = q * r + 2.7620138719733994e-07;
  q = q * r + 2.7557268378684192e-06;
  q = q * r + 2.480152119021773e-05;
  q = q * r + 1.9841269863105968e-04;
  q = q * r + 1.3888888917281794e-03;
  q = q * r + 8.333333333330051e-03;
  q = q * r + 4.166666666662399e-02;
  q = q * r + 1.6666666666666669e-01;
  q = q * r + 0.5000000000000001;
  return q * (r * r) + r + 1.0;
}

constexpr double kRoundF64 = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer

/// x / ln 2 rounded to an integer n, plus 1.5 * 2^52: the low bits are n in two's complement.
DGAP_INLINE double exp_shifted_f64(double x) { return x * 1.4426950408889634 + kRoundF64; }

/// exp(x - n ln 2) for the n in `shifted`.
DGAP_INLINE double exp_rest_f64(double x, double shifted) {
  const double n = shifted - kRoundF64;
  return exp_reduced_f64((x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10);
}

/// exp(x) in double precision, same rules: relative error below 4e-16, x < -708 gives 0, x > 709.7
/// gives +inf.
DGAP_INLINE double exp_f64(double x) {
  const double clamped = x < -709.0 ? -709.0 : (x > 710.0 ? 710.0 : x);
  const double shifted = exp_shifted_f64(clamped);
  const std::int64_t n =
      std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(kRoundF64);
  const std::int64_t half = n >> 1;  // two factors of 2^(n/2), as above
  const double s1 = std::bit_cast<double>((half + 1023) << 52);
  const double s2 = std::bit_cast<double>((n - half + 1023) << 52);
  double y = exp_rest_f64(clamped, shifted) * s1 * s2;
  y = x < -708.0 ? 0.0 : y;
  return x > 709.7 ? std::bit_cast<double>(std::int64_t{0x7ff0000000000000}) : y;
}

/// exp(x) for -708 <= x <= 709, where it is a normal number: the bits of exp_f64, no checks.
DGAP_INLINE double exp_normal_f64(double x) {
  const double shifted = exp_shifted_f64(x);
  const double scale = std::bit_cast<double>((std::bit_cast<std::int64_t>(shifted) + 1023) << 52);
  return exp_rest_f64(x, shifted) * scale;
}

}  // namespace dgap::base
