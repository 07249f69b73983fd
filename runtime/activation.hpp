#pragma once
#include "base/exp.hpp"
#include "base/fused.hpp"
#include "base/multiversion.hpp"

/// The non-linear functions of the networks, in single precision with the project's own exp and
/// fused products: the same bits wherever they are inlined.
namespace dgap::runtime {

/// exp(x) for x <= 0; relative error below 2e-7 (f32), below x = -87: exp(-87).
DGAP_INLINE float exp_nonpositive(float x) {
  return base::exp_normal_f32<true>(x < -87.0f ? -87.0f : x);
}
DGAP_INLINE double exp_nonpositive(double x) { return base::exp_f64(x); }

DGAP_INLINE float sigmoid(float x) { return 1.0f / (1.0f + base::exp_f32(-x)); }

/// Beyond it gelu(x) is x, or nothing (below 1e-32).
constexpr float kGeluReach = 9.5f;

/// x, but at least -kGeluReach; NaN stays.
DGAP_INLINE float gelu_floor(float x) { return x < -kGeluReach ? -kGeluReach : x; }

/// sigmoid(sqrt(8 / pi) (t + 0.044715 t^3)) for |t| <= kGeluReach, where no exp overflows.
DGAP_INLINE float gelu_sigmoid(float t, float square) {
  const float argument = t * base::multiply_add(square, -0.0713548163f, -1.59576912f);
  return 1.0f / (1.0f + base::exp_normal_f32<true>(argument));
}

/// GELU in tanh form, x (1 + tanh u) / 2 = x sigmoid(2u).
DGAP_INLINE float gelu(float x) {
  const float low = gelu_floor(x), t = low > kGeluReach ? kGeluReach : low;
  return low * gelu_sigmoid(t, t * t);
}

}  // namespace dgap::runtime
