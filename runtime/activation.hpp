#pragma once
#include "base/exp.hpp"
#include "base/multiversion.hpp"

/// The non-linear functions of the networks, in single precision with the project's own exp: the
/// same bits wherever they are inlined.
namespace dgap::runtime {

DGAP_INLINE float sigmoid(float x) { return 1.0f / (1.0f + base::exp_f32(-x)); }

/// sqrt(8 / pi) (x + 0.044715 x^3): twice the argument of the tanh.
DGAP_INLINE float gelu_argument(float x) { return 1.59576912f * (x + 0.044715f * (x * x * x)); }

/// GELU in tanh form, x (1 + tanh u) / 2 = x sigmoid(2u).
DGAP_INLINE float gelu(float x) { return x / (1.0f + base::exp_f32(-gelu_argument(x))); }

/// d gelu / dx = s + x s (1 - s) d(2u)/dx with s = sigmoid(2u). Beyond |x| = 20 s is 0 or 1.
DGAP_INLINE float gelu_derivative(float x) {
  float t = x > 20.0f ? 20.0f : x;
  t = t < -20.0f ? -20.0f : t;
  const float s = sigmoid(gelu_argument(t));
  return s + t * (s * (1.0f - s)) * (1.59576912f * (1.0f + 0.134145f * (t * t)));
}

}  // namespace dgap::runtime
