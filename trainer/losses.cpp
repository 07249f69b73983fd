#include "trainer/losses.hpp"

#include <algorithm>

#include "trainer/fold.hpp"
#include "trainer/functions.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;

template <class Real>
double cross_entropy_sum(const Real* logits, const std::uint8_t* labels, double positive_weight,
                         std::int64_t count, Real* gradient) {
  double total = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool positive = labels[i] != 0;
    const double weight = positive ? positive_weight : 1.0;
    const auto x = static_cast<double>(logits[i]);
    const Softplus<double> s = softplus_of_negative(positive ? x : -x);
    total += weight * s.value;
    if (gradient != nullptr) {
      gradient[i] = static_cast<Real>(positive ? -weight * s.slope : weight * s.slope);
    }
  }
  return total;
}

/// Lane sums of exp((z - top) / temperature), p and p z over the candidates.
struct WindowSums {
  double exponentials = 0.0, mass = 0.0, cross = 0.0;
};

template <class Real>
DGAP_INLINE WindowSums window_sums(const Real* z, const float* p, int k, double top,
                                   double inverse) {
  double e[kLanes] = {}, m[kLanes] = {}, c[kLanes] = {};
  const int whole = k / kLanes * kLanes;
  for (int i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const double x = (static_cast<double>(z[i + l]) - top) * inverse;
      e[l] += base::exp_f64(x);
      m[l] += p[i + l];
      c[l] += p[i + l] * x;
    }
  }
  for (int i = whole; i < k; ++i) {
    const double x = (static_cast<double>(z[i]) - top) * inverse;
    e[i - whole] += base::exp_f64(x);
    m[i - whole] += p[i];
    c[i - whole] += p[i] * x;
  }
  WindowSums sums;
  for (int l = 0; l < kLanes; ++l) {
    sums.exponentials += e[l];
    sums.mass += m[l];
    sums.cross += c[l];
  }
  return sums;
}

template <class Real>
DGAP_INLINE double kl_of(const Real* z, const WindowTarget& target, double temperature,
                         Real* gradient) {
  const double inverse = 1.0 / temperature;
  double top = target.has_tail ? target.tail_logit : static_cast<double>(z[0]);
  for (int i = 0; i < target.k; ++i) {
    const auto x = static_cast<double>(z[i]);
    top = x > top ? x : top;
  }
  WindowSums sums = window_sums(z, target.probability, target.k, top, inverse);
  if (target.has_tail) {
    const double x = (target.tail_logit - top) * inverse;
    sums.exponentials += base::exp_f64(x);
    sums.mass += target.tail_probability;
    sums.cross += target.tail_probability * x;
  }
  if (gradient != nullptr) {
    const double scale = sums.mass / sums.exponentials;
    for (int i = 0; i < target.k; ++i) {
      const double e = base::exp_f64((static_cast<double>(z[i]) - top) * inverse);
      gradient[i] = static_cast<Real>(inverse * (scale * e - target.probability[i]));
    }
  }
  return target.negative_entropy - sums.cross + sums.mass * base::log_f64(sums.exponentials);
}

/// Rows [first, first + kLanes) of the pairs against whole blocks of lanes: where j is not ranked
/// below i, p_i - p_j <= 0 and the weight is 0. What a row takes from its own candidate waits until
/// the block is done, so that rows do not wait for each other.
template <class Real>
DGAP_INLINE double ranking_block(const Real* __restrict z, const float* __restrict p, int first,
                                 int k, int padded, Real* __restrict gradient) {
  Real loss[kLanes] = {}, taken[kLanes] = {};
  const int rows = k - first < kLanes ? k - first : kLanes;
  for (int row = 0; row < rows; ++row) {
    Real own[kLanes] = {};
    const Real zi = z[first + row];
    const float pi = p[first + row];
    for (int j = first; j < padded; j += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const float above = pi - p[j + l];
        const Real weight = above > 0.0f ? above : 0.0f;
        const Softplus<Real> s = softplus_of_negative(zi - z[j + l]);
        loss[l] = base::multiply_add(weight, s.value, loss[l]);
        own[l] = base::multiply_add(weight, s.slope, own[l]);
        gradient[j + l] = base::multiply_add(weight, s.slope, gradient[j + l]);
      }
    }
    taken[row] = fold(own);
  }
  for (int l = 0; l < kLanes; ++l) gradient[first + l] -= taken[l];
  return fold(loss);
}

template <class Real>
DGAP_INLINE double ranking_sum(const Real* z, const float* p, int k, Real* gradient) {
  const int padded = static_cast<int>(base::padded_to_lanes(k));
  std::fill_n(gradient, padded, Real(0));
  double total = 0.0;
  for (int first = 0; first < k; first += kLanes) {
    total += ranking_block(z, p, first, k, padded, gradient);
  }
  return total;
}

}  // namespace

double binary_cross_entropy(const float* logits, const std::uint8_t* labels, double positive_weight,
                            std::int64_t count, float* gradient) {
  return cross_entropy_sum(logits, labels, positive_weight, count, gradient);
}
double binary_cross_entropy(const double* logits, const std::uint8_t* labels,
                            double positive_weight, std::int64_t count, double* gradient) {
  return cross_entropy_sum(logits, labels, positive_weight, count, gradient);
}

DGAP_MULTIVERSION double window_kl(const float* z, const WindowTarget& target, double temperature,
                                   float* gradient) {
  return kl_of(z, target, temperature, gradient);
}
double window_kl(const double* z, const WindowTarget& target, double temperature,
                 double* gradient) {
  return kl_of(z, target, temperature, gradient);
}

DGAP_MULTIVERSION double ranking_loss(const float* z, const float* p, int k, float* gradient) {
  return ranking_sum(z, p, k, gradient);
}
double ranking_loss(const double* z, const float* p, int k, double* gradient) {
  return ranking_sum(z, p, k, gradient);
}

}  // namespace dgap::trainer
