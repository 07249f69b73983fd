#pragma once
#include <cstdint>

#include "base/fused.hpp"
#include "base/multiversion.hpp"
#include "runtime/activation.hpp"

/// Kernels over matrices [width, columns]: one row of numbers per neuron, `stride` apart, one
/// column per candidate; the number of columns is a multiple of base::kLanes. Loops run over
/// columns, so no sum crosses lanes. Real: float to serve and to train, double to check gradients.
/// To be inlined into DGAP_MULTIVERSION functions.
namespace dgap::runtime {

/// Where the weight of output o and input i lies: o * out_step + i * in_step.
struct Weights {
  std::int64_t out_step = 0, in_step = 1;
  int outputs = 0, inputs = 0;
};

namespace columns {

using base::kLanes;

/// `outs` neurons x `width` columns, sums held in registers.
template <int outs, int width, class Real>
DGAP_INLINE void multiply_tile(Weights shape, const Real* w, const Real* start, const Real* x,
                               Real* y, std::int64_t stride) {
  Real sum[outs][width];
  for (int o = 0; o < outs; ++o) {
    for (int l = 0; l < width; ++l) sum[o][l] = start != nullptr ? start[o] : Real(0);
  }
  for (int i = 0; i < shape.inputs; ++i) {
    for (int o = 0; o < outs; ++o) {
      const Real weight = w[o * shape.out_step + i * shape.in_step];
      for (int l = 0; l < width; ++l) {
        sum[o][l] = base::multiply_add(x[i * stride + l], weight, sum[o][l]);
      }
    }
  }
  for (int o = 0; o < outs; ++o) {
    for (int l = 0; l < width; ++l) y[o * stride + l] = sum[o][l];
  }
}

template <int width, class Real>
DGAP_INLINE void multiply_columns(Weights shape, const Real* w, const Real* start, const Real* x,
                                  Real* y, std::int64_t stride) {
  int o = 0;
  for (; o + 4 <= shape.outputs; o += 4) {
    multiply_tile<4, width>(shape, w + o * shape.out_step, start != nullptr ? start + o : nullptr,
                            x, y + o * stride, stride);
  }
  for (; o < shape.outputs; ++o) {
    multiply_tile<1, width>(shape, w + o * shape.out_step, start != nullptr ? start + o : nullptr,
                            x, y + o * stride, stride);
  }
}

/// y[o, c] = start[o] + sum_i x[i, c] w[o, i], i ascending (start null: 0).
template <class Real>
DGAP_INLINE void multiply(Weights shape, const Real* w, const Real* start, const Real* x, Real* y,
                          std::int64_t columns, std::int64_t stride) {
  std::int64_t c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    multiply_columns<2 * kLanes>(shape, w, start, x + c, y + c, stride);
  }
  for (; c < columns; c += kLanes) multiply_columns<kLanes>(shape, w, start, x + c, y + c, stride);
}

/// start[o] = bias[o] + sum_i x[i] w[o, i], i ascending: what the inputs that all columns share give.
template <class Real>
DGAP_INLINE void sum_shared(Weights shape, const Real* w, const Real* bias, const Real* x,
                            Real* start) {
  for (int o = 0; o < shape.outputs; ++o) {
    Real sum = bias[o];
    for (int i = 0; i < shape.inputs; ++i) {
      sum = base::multiply_add(x[i], w[o * shape.out_step + i * shape.in_step], sum);
    }
    start[o] = sum;
  }
}

/// to[n, c] = a[n, c] + b[n, c]
template <class Real>
DGAP_INLINE void add(int width, const Real* a, const Real* b, Real* to, std::int64_t columns,
                     std::int64_t stride) {
  for (int n = 0; n < width; ++n) {
    for (std::int64_t c = 0; c < columns; ++c) {
      to[n * stride + c] = a[n * stride + c] + b[n * stride + c];
    }
  }
}

/// One head of self-attention among `count` candidates, the first columns of q, k, v and out
/// [width, columns]: out_i = sum_j a_ij v_j, a_i = softmax_j(scale q_i . k_j), j ascending. The
/// shares of kLanes candidates go to shares[j * shares_stride + lane]; tile after tile overwrites
/// them, unless `keep` moves on by kLanes.
template <class Real>
DGAP_INLINE void attend(int width, int count, Real scale, const Real* q, const Real* k,
                        const Real* v, std::int64_t stride, Real* shares,
                        std::int64_t shares_stride, bool keep, Real* out) {
  for (std::int64_t first = 0; first < count; first += kLanes) {
    Real* const a = keep ? shares + first : shares;
    Real largest[kLanes], sum[kLanes] = {};
    for (int j = 0; j < count; ++j) {
      Real s[kLanes] = {};
      for (int d = 0; d < width; ++d) {
        const Real key = k[d * stride + j];
        for (int l = 0; l < kLanes; ++l) {
          s[l] = base::multiply_add(q[d * stride + first + l], key, s[l]);
        }
      }
      for (int l = 0; l < kLanes; ++l) {
        s[l] *= scale;
        a[j * shares_stride + l] = s[l];
        largest[l] = j == 0 || s[l] > largest[l] ? s[l] : largest[l];
      }
    }
    for (int j = 0; j < count; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        const Real e = exp_nonpositive(a[j * shares_stride + l] - largest[l]);
        a[j * shares_stride + l] = e;
        sum[l] += e;
      }
    }
    for (int l = 0; l < kLanes; ++l) sum[l] = 1 / sum[l];
    for (int j = 0; j < count; ++j) {
      for (int l = 0; l < kLanes; ++l) a[j * shares_stride + l] *= sum[l];
    }
    for (int d = 0; d < width; ++d) {
      Real o[kLanes] = {};
      for (int j = 0; j < count; ++j) {
        const Real value = v[d * stride + j];
        for (int l = 0; l < kLanes; ++l) {
          o[l] = base::multiply_add(a[j * shares_stride + l], value, o[l]);
        }
      }
      for (int l = 0; l < kLanes; ++l) out[d * stride + first + l] = o[l];
    }
  }
}

}  // namespace columns
}  // namespace dgap::runtime
