#pragma once
#include <cmath>

#include "base/exp.hpp"
#include "base/fused.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"
#include "runtime/activation.hpp"

/// The scalar functions of the losses and of the reverse pass, branch-free so that loops over them
/// vectorise. Single precision is what trains, double precision what gradients are checked in.
namespace dgap::trainer {

/// log(1 + u) + c for u in [0, 1]; relative error of the logarithm below 2e-7 (f32): a minimax
/// polynomial of log(1 + u) / u.
DGAP_INLINE float log1p_unit_plus(float u, float c) {
  float p = -0.003244024235755205f;
  p = base::multiply_add(p, u, 0.019851457327604294f);
  p = base::multiply_add(p, u, -0.056959524750709534f);
  p = base::multiply_add(p, u, 0.10603653639554977f);
  p = base::multiply_add(p, u, -0.15305592119693756f);
  p = base::multiply_add(p, u, 0.1967593878507614f);
  p = base::multiply_add(p, u, -0.24954134225845337f);
  p = base::multiply_add(p, u, 0.3332996368408203f);
  p = base::multiply_add(p, u, -0.4999990165233612f);
  p = base::multiply_add(p, u, 1.0f);
  return base::multiply_add(p, u, c);
}
DGAP_INLINE double log1p_unit_plus(double u, double c) { return base::log1p_f64(u) + c; }

/// log(1 + exp(-x)) and minus its derivative, sigmoid(-x), stable for every finite x.
template <class Real>
struct Softplus {
  Real value, slope;
};
template <class Real>
DGAP_INLINE Softplus<Real> softplus_of_negative(Real x) {
  const Real magnitude = std::abs(x);
  const Real e = runtime::exp_nonpositive(-magnitude);
  const Real r = 1 / (1 + e);
  const Real below = (magnitude - x) / 2;  // max(0, -x), exactly
  return {log1p_unit_plus(e, below), x < 0 ? r : e * r};
}

/// GELU (tanh form) and its derivative with one exp; the value has the bits of runtime::gelu.
template <class Real>
struct Activation {
  Real value, derivative;
};
DGAP_INLINE Activation<float> activation(float x) {
  const float low = runtime::gelu_floor(x),
              t = low > runtime::kGeluReach ? runtime::kGeluReach : low;
  const float square = t * t, s = runtime::gelu_sigmoid(t, square);
  const float value = low * s;
  return {value, base::multiply_add(value * (1.0f - s),
                                    base::multiply_add(square, 0.214064449f, 1.59576912f), s)};
}
DGAP_INLINE Activation<double> activation(double x) {
  constexpr double kScale = 1.5957691216057308;  // sqrt(8 / pi)
  const double s = 1.0 / (1.0 + base::exp_f64(-kScale * (x + 0.044715 * x * x * x)));
  return {x * s, s + x * s * (1.0 - s) * (kScale * (1.0 + 0.134145 * x * x))};
}

}  // namespace dgap::trainer
