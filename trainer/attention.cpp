#include "trainer/attention.hpp"

#include <cmath>

#include "runtime/columns.hpp"
#include "trainer/fold.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;

template <class Real>
DGAP_INLINE Real scale_of(int width) {
  return Real(1) / std::sqrt(static_cast<Real>(width));
}

/// scores[j, i] = gradient of the score q_i . k_j: a_ij (up_i . v_j - sum_j a_ij up_i . v_j) scale.
template <class Real>
DGAP_INLINE void score_gradients(HeadShape s, const Real* v, const Real* shares, const Real* up,
                                 Real* scores) {
  const Real scale = scale_of<Real>(s.width);
  for (std::int64_t first = 0; first < s.count; first += kLanes) {
    const Real* const a = shares + first;
    Real* const to = scores + first;
    Real mean[kLanes] = {};
    for (int j = 0; j < s.count; ++j) {
      Real d[kLanes] = {};
      for (int w = 0; w < s.width; ++w) {
        const Real value = v[w * s.stride + j];
        for (int l = 0; l < kLanes; ++l) {
          d[l] = base::multiply_add(up[w * s.stride + first + l], value, d[l]);
        }
      }
      for (int l = 0; l < kLanes; ++l) {
        to[j * s.shares_stride + l] = d[l];
        mean[l] = base::multiply_add(a[j * s.shares_stride + l], d[l], mean[l]);
      }
    }
    for (int j = 0; j < s.count; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        Real& d = to[j * s.shares_stride + l];
        d = first + l < s.count ? a[j * s.shares_stride + l] * (d - mean[l]) * scale : Real(0);
      }
    }
  }
}

/// dq_i = sum_j scores[j, i] k_j
template <class Real>
DGAP_INLINE void query_gradients(HeadShape s, const Real* k, const Real* scores, Real* dq) {
  for (std::int64_t first = 0; first < s.columns; first += kLanes) {
    for (int w = 0; w < s.width; ++w) {
      Real sum[kLanes] = {};
      for (int j = 0; first < s.count && j < s.count; ++j) {
        const Real key = k[w * s.stride + j];
        for (int l = 0; l < kLanes; ++l) {
          sum[l] = base::multiply_add(scores[j * s.shares_stride + first + l], key, sum[l]);
        }
      }
      for (int l = 0; l < kLanes; ++l) dq[w * s.stride + first + l] = sum[l];
    }
  }
}

/// to[w, j] = sum_i rows[j, i] x[w, i]: gradients of keys (scores, q) and of values (shares, up).
template <class Real>
DGAP_INLINE void sums_over_candidates(HeadShape s, const Real* rows, const Real* x, Real* to) {
  for (int w = 0; w < s.width; ++w) {
    for (int j = 0; j < s.count; ++j) {
      Real sum[kLanes] = {};
      for (std::int64_t first = 0; first < s.count; first += kLanes) {
        for (int l = 0; l < kLanes; ++l) {
          sum[l] = base::multiply_add(rows[j * s.shares_stride + first + l],
                                      x[w * s.stride + first + l], sum[l]);
        }
      }
      to[w * s.stride + j] = fold(sum);
    }
    for (std::int64_t j = s.count; j < s.columns; ++j) to[w * s.stride + j] = 0;
  }
}

template <class Real>
DGAP_INLINE void backward(HeadShape s, const Real* q, const Real* k, const Real* v,
                          const Real* shares, const Real* up, Real* scores, Real* dq, Real* dk,
                          Real* dv) {
  score_gradients(s, v, shares, up, scores);
  query_gradients(s, k, scores, dq);
  sums_over_candidates(s, scores, q, dk);
  sums_over_candidates(s, shares, up, dv);
}

}  // namespace

DGAP_MULTIVERSION void attend(HeadShape s, const float* q, const float* k, const float* v,
                              float* shares, float* out) {
  runtime::columns::attend(s.width, s.count, scale_of<float>(s.width), q, k, v, s.stride, shares,
                           s.shares_stride, true, out);
}
void attend(HeadShape s, const double* q, const double* k, const double* v, double* shares,
            double* out) {
  runtime::columns::attend(s.width, s.count, scale_of<double>(s.width), q, k, v, s.stride, shares,
                           s.shares_stride, true, out);
}

DGAP_MULTIVERSION void attend_backward(HeadShape s, const float* q, const float* k, const float* v,
                                       const float* shares, const float* up, float* scores,
                                       float* dq, float* dk, float* dv) {
  backward(s, q, k, v, shares, up, scores, dq, dk, dv);
}
void attend_backward(HeadShape s, const double* q, const double* k, const double* v,
                     const double* shares, const double* up, double* scores, double* dq, double* dk,
                     double* dv) {
  backward(s, q, k, v, shares, up, scores, dq, dk, dv);
}

}  // namespace dgap::trainer
