#pragma once
#include <bit>
#include <cstdint>

#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"
#include "runtime/activation.hpp"

/// The scalar functions of the losses and of the reverse pass, branch-free so that loops over them
/// vectorise. Single precision is what trains, double precision what gradients are checked in.
namespace dgap::trainer {

/// exp(x) for x <= 0; relative error below 2e-7 (f32), below x = -87: exp(-87).
DGAP_INLINE float exp_nonpositive(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = base::exp_shifted_f32(clamped);
  const float p = base::exp_rest_f32(clamped, shifted);
  // Times 2^n by addition to the exponent, in words that wrap: n >= -126.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}
DGAP_INLINE double exp_nonpositive(double x) { return base::exp_f64(x); }

/// log(1 + u) for u in [0, 1]; relative error below 2e-7 (f32): a minimax polynomial of
/// log(1 + u) / u.
DGAP_INLINE float log1p_unit(float u) {
  float p = -0.003244024235755205f;
  p = p * u + 0.019851457327604294f;
  p = p * u - 0.056959524750709534f;
  p = p * u + 0.10603653639554977f;
  p = p * u - 0.15305592119693756f;
  p = p * u + 0.1967593878507614f;
  p = p * u - 0.24954134225845337f;
  p = p * u + 0.3332996368408203f;
  p = p * u - 0.4999990165233612f;
  p = p * u + 1.0f;
  return p * u;
}
DGAP_INLINE double log1p_unit(double u) { return base::log1p_f64(u); }

/// log(1 + exp(-x)) and minus its derivative, sigmoid(-x), stable for every finite x.
template <class Real>
struct Softplus {
  Real value, slope;
};
template <class Real>
DGAP_INLINE Softplus<Real> softplus_of_negative(Real x) {
  const Real magnitude = x < 0 ? -x : x;
  const Real e = exp_nonpositive(-magnitude);
  const Real r = 1 / (1 + e);
  return {(x < 0 ? -x : 0) + log1p_unit(e), x < 0 ? r : e * r};
}

/// GELU (tanh form) and its derivative with one exp; the value has the bits of runtime::gelu.
template <class Real>
struct Activation {
  Real value, derivative;
};
DGAP_INLINE Activation<float> activation(float x) {
  const float denominator = 1.0f + base::exp_f32(-runtime::gelu_argument(x));
  const float value = x / denominator;
  const float s = 1.0f / denominator;
  float t = x > 20.0f ? 20.0f : x;  // beyond it s is 0 or 1, and the square must not overflow
  t = t < -20.0f ? -20.0f : t;
  return {value, s + value * (1.0f - s) * (1.59576912f * (1.0f + 0.134145f * (t * t)))};
}
DGAP_INLINE Activation<double> activation(double x) {
  constexpr double kScale = 1.5957691216057308;  // sqrt(8 / pi)
  const double s = 1.0 / (1.0 + base::exp_f64(-kScale * (x + 0.044715 * x * x * x)));
  return {x * s, s + x * s * (1.0 - s) * (kScale * (1.0 + 0.134145 * x * x))};
}

}  // namespace dgap::trainer
