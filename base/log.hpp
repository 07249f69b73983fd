#pragma once
#include <bit>
#include <cstdint>

#include "base/multiversion.hpp"

namespace dgap::base {

/// log(x) in double precision: branch-free, the same bits at every dispatch level, relative error
/// below 4e-16. 0 gives -inf, x < 0 gives NaN, +inf and NaN stay. Own, like exp (base/exp.hpp).
/// x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m from the series of atanh((m - 1) / (m + 1)).
DGAP_INLINE double log_f64(double x) {
  const bool subnormal = x < 0x1p-1022;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
  constexpr std::int64_t kSqrtHalf = 0x3fe6a09e667f3bcc;
  const auto from_sqrt_half = static_cast<std::int64_t>(bits - std::uint64_t{kSqrtHalf});
  const std::int64_t exponent = (from_sqrt_half >> 52) - (subnormal ? 54 : 0);
  const double m =
      std::bit_cast<double>((from_sqrt_half & std::int64_t{0x000fffffffffffff}) + kSqrtHalf);
  constexpr std::int64_t kMagic = 0x4338000000000000;  // 1.5 * 2^52: integer to double without cvt
  const double k = std::bit_cast<double>(exponent + kMagic) - 6755399441055744.0;
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double r = 1.479819860511658591e-01;  // minimax on [0, .1716^2] (the classic coefficients)
  r = r * z + 1.531383769920937332e-01;
  r = r * z + 1.818357216161805012e-01;
  r = r * z + 2.222219843214978396e-01;
  r = r * z + 2.857142874366239149e-01;
  r = r * z + 3.999999999940941908e-01;
  r = r * z + 6.666666666666735130e-01;
  r = r * z;
  const double half_square = 0.5 * f * f;
  double y = k * 6.93147180369123816490e-01 -
             ((half_square - (s * (half_square + r) + k * 1.90821492927058770002e-10)) - f);
  const double infinity = std::bit_cast<double>(std::int64_t{0x7ff0000000000000});
  y = x == infinity ? x : y;
  y = x == 0.0 ? -infinity : y;
  y = x < 0.0 ? std::bit_cast<double>(std::int64_t{0x7ff8000000000000}) : y;
  return x != x ? x : y;
}

/// log(1 + x), relative error below 1e-15; -1 gives -inf, x < -1 gives NaN.
DGAP_INLINE double log1p_f64(double x) {
  const double u = 1.0 + x;
  const double lost = x - (u - 1.0);  // what the rounding of 1 + x dropped
  const double y = log_f64(u) + lost / u;
  const double infinity = std::bit_cast<double>(std::int64_t{0x7ff0000000000000});
  return x == infinity || u == 0.0 ? log_f64(u) : y;
}

}  // namespace dgap::base
