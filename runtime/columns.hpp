#pragma once
#include <cstdint>
#include <cstring>

#include "base/fused.hpp"
#include "base/multiversion.hpp"
#include "runtime/activation.hpp"
#include "runtime/rows.hpp"

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

/// start[o] = bias[o] + sum_i x[i] w[o, i], i ascending: of the inputs that all columns share.
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

/// a_ij = softmax_j(scale a_ij) for kLanes candidates i: rows j of `a` are `stride` apart.
template <class Real>
DGAP_INLINE void softmax(int count, Real scale, Real* a, std::int64_t stride) {
  typedef Real Lanes __attribute__((vector_size(kLanes * sizeof(Real))));
  Lanes top, scores;
  for (int j = 0; j < count; ++j) {
    for (int l = 0; l < kLanes; ++l) a[j * stride + l] *= scale;
  }
  std::memcpy(&top, a, sizeof top);
  for (int j = 1; j < count; ++j) {
    std::memcpy(&scores, a + j * stride, sizeof scores);
    top = scores > top ? scores : top;
  }
  Real largest[kLanes], sum[kLanes] = {};
  std::memcpy(largest, &top, sizeof top);
  for (int j = 0; j < count; ++j) {
    for (int l = 0; l < kLanes; ++l) {
      const Real e = exp_nonpositive(a[j * stride + l] - largest[l]);
      a[j * stride + l] = e;
      sum[l] += e;
    }
  }
  for (int l = 0; l < kLanes; ++l) sum[l] = 1 / sum[l];
  for (int j = 0; j < count; ++j) {
    for (int l = 0; l < kLanes; ++l) a[j * stride + l] *= sum[l];
  }
}

/// One head of self-attention among `count` candidates, the first columns of q, k, v and out
/// [width, columns]: out_i = sum_j a_ij v_j, a_i = softmax_j(scale q_i . k_j), d and j ascending.
/// `lanes` candidates at a time, a multiple of kLanes; their shares stay in shares[j *
/// shares_stride + lane], where the next ones overwrite them.
template <class Real>
DGAP_INLINE void attend(int width, int count, std::int64_t lanes, Real scale, const Real* q,
                        const Real* k, const Real* v, std::int64_t stride, Real* shares,
                        std::int64_t shares_stride, Real* out) {
  const std::int64_t end = base::padded_to_lanes(count);
  for (std::int64_t first = 0; first < end; first += lanes) {
    const int block = static_cast<int>(end - first < lanes ? end - first : lanes);
    rows::multiply<Real>(
        {width, block, k, 1, stride, q + first, stride, nullptr, 0, shares, shares_stride}, count);
    for (int l = 0; l < block; l += kLanes) softmax(count, scale, shares + l, shares_stride);
    rows::multiply<Real>(
        {count, block, v, stride, 1, shares, shares_stride, nullptr, 0, out + first, stride},
        width);
  }
}

}  // namespace columns
}  // namespace dgap::runtime
