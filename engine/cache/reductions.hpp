#pragma once
#include <cstring>

#include "base/multiversion.hpp"
#include "engine/cache/lanes.hpp"

/// Sums and maxima over the values of a group, in one fixed order at every instruction set.
namespace dgap::engine {

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

}  // namespace dgap::engine
