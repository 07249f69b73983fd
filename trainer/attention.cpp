#include "trainer/attention.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/columns.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;
using runtime::RowsProduct;

template <class Real>
DGAP_INLINE Real scale_of(int width) {
  return Real(1) / std::sqrt(static_cast<Real>(width));
}

/// scores[j, i], given as d_ij = up_i . v_j, become the gradients of the scores q_i . k_j:
/// a_ij (d_ij - sum_j a_ij d_ij) scale, 0 where i is no candidate.
template <class Real>
DGAP_INLINE void softmax_backward(HeadShape s, const Real* shares, Real* scores) {
  const Real scale = scale_of<Real>(s.width);
  for (std::int64_t first = 0; first < s.count; first += kLanes) {
    const Real* const a = shares + first;
    Real* const d = scores + first;
    Real mean[kLanes] = {}, factor[kLanes];
    for (int j = 0; j < s.count; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        mean[l] = base::multiply_add(a[j * s.stride + l], d[j * s.stride + l], mean[l]);
      }
    }
    for (int l = 0; l < kLanes; ++l) factor[l] = first + l < s.count ? scale : Real(0);
    for (int j = 0; j < s.count; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        Real& score = d[j * s.stride + l];
        score = a[j * s.stride + l] * (score - mean[l]) * factor[l];
      }
    }
  }
}

DGAP_MULTIVERSION void scores_backward(HeadShape s, const float* shares, float* scores) {
  softmax_backward(s, shares, scores);
}
void scores_backward(HeadShape s, const double* shares, double* scores) {
  softmax_backward(s, shares, scores);
}

/// dk_j = sum_i scores[j, i] q_i, dv_j = sum_i shares[j, i] up_i
template <class Real>
void sum_over_candidates(HeadShape s, const Real* rows, const Real* x, Real* to) {
  for (int w = 0; w < s.width; ++w) std::fill_n(to + w * s.stride, s.columns, Real(0));
  add_weight_gradient(s.width, s.count, x, rows, to, s.stride, base::padded_to_lanes(s.count),
                      s.stride);
}

template <class Real>
void backward(HeadShape s, const Real* q, const Real* k, const Real* v, const Real* shares,
              const Real* up, Real* scores, Real* dq, Real* dk, Real* dv) {
  const int lanes = static_cast<int>(base::padded_to_lanes(s.count));
  multiply(
      RowsProduct<Real>{s.width, lanes, v, 1, s.stride, up, s.stride, nullptr, 0, scores, s.stride},
      s.count);
  scores_backward(s, shares, scores);
  multiply(
      RowsProduct<Real>{s.count, lanes, k, s.stride, 1, scores, s.stride, nullptr, 0, dq, s.stride},
      s.width);
  for (int w = 0; w < s.width; ++w) {
    std::fill(dq + w * s.stride + lanes, dq + w * s.stride + s.columns, Real(0));
  }
  sum_over_candidates(s, scores, q, dk);
  sum_over_candidates(s, shares, up, dv);
}

}  // namespace

DGAP_MULTIVERSION void attend(HeadShape s, const float* q, const float* k, const float* v,
                              float* shares, float* out) {
  runtime::columns::attend(s.width, s.count, s.columns, scale_of<float>(s.width), q, k, v, s.stride,
                           shares, s.stride, out);
}
void attend(HeadShape s, const double* q, const double* k, const double* v, double* shares,
            double* out) {
  runtime::columns::attend(s.width, s.count, s.columns, scale_of<double>(s.width), q, k, v,
                           s.stride, shares, s.stride, out);
}

void attend_backward(HeadShape s, const float* q, const float* k, const float* v,
                     const float* shares, const float* up, float* scores, float* dq, float* dk,
                     float* dv) {
  backward(s, q, k, v, shares, up, scores, dq, dk, dv);
}
void attend_backward(HeadShape s, const double* q, const double* k, const double* v,
                     const double* shares, const double* up, double* scores, double* dq, double* dk,
                     double* dv) {
  backward(s, q, k, v, shares, up, scores, dq, dk, dv);
}

}  // namespace dgap::trainer
