#pragma once
#include <cstdint>

#include "base/fused.hpp"
#include "base/multiversion.hpp"

/// The kernel of layers over matrices with one row of numbers per sample (columns.hpp has one
/// column per candidate). Loops run over outputs, so no sum crosses lanes. Real: float to serve and
/// to train, double to check gradients. To be inlined into DGAP_MULTIVERSION functions.
namespace dgap::runtime {

/// y[r, o] = start[r, o] + sum_i x[r, i] w[i, o], i ascending, for o < outputs, a multiple of
/// base::kLanes. Which way x runs is free, so that one kernel does for a layer, for the gradient of
/// its inputs (w transposed) and for that of its weights (the sum runs over samples).
template <class Real>
struct RowsProduct {
  int inputs = 0, outputs = 0;
  const Real* x = nullptr;  // x[r, i] at r * x_row + i * x_input
  std::int64_t x_row = 0, x_input = 1;
  const Real* w = nullptr;  // rows of w, start and y are *_row apart
  std::int64_t w_row = 0;
  const Real* start = nullptr;  // null: 0; may be y
  std::int64_t start_row = 0;   // 0: the same for every row
  Real* y = nullptr;
  std::int64_t y_row = 0;
};

namespace rows {

using base::kLanes;

/// `count` rows x `width` outputs from (row, output) on, sums held in registers.
template <int count, int width, class Real>
DGAP_INLINE void multiply_tile(const RowsProduct<Real>& p, std::int64_t row, std::int64_t output) {
  static constexpr Real kZeros[width] = {};
  const bool zero = p.start == nullptr;
  const Real* const start = zero ? kZeros : p.start + row * p.start_row + output;
  const std::int64_t start_row = zero ? 0 : p.start_row;
  Real sum[count][width];
  for (int r = 0; r < count; ++r) {
    for (int l = 0; l < width; ++l) sum[r][l] = start[r * start_row + l];
  }
  const Real* w = p.w + output;
  const Real* x = p.x + row * p.x_row;
  for (int i = 0; i < p.inputs; ++i, w += p.w_row, x += p.x_input) {
    for (int r = 0; r < count; ++r) {
      const Real factor = x[r * p.x_row];
      for (int l = 0; l < width; ++l) sum[r][l] = base::multiply_add(factor, w[l], sum[r][l]);
    }
  }
  Real* const y = p.y + row * p.y_row + output;
  for (int r = 0; r < count; ++r) {
    for (int l = 0; l < width; ++l) y[r * p.y_row + l] = sum[r][l];
  }
}

/// Two lanes' widths at a time keep the multipliers of AVX-512 busy and fit the registers of AVX2.
template <int count, class Real>
DGAP_INLINE void multiply_rows(const RowsProduct<Real>& p, std::int64_t row) {
  std::int64_t o = 0;
  for (; o + 2 * kLanes <= p.outputs; o += 2 * kLanes) {
    multiply_tile<count, 2 * kLanes>(p, row, o);
  }
  if (o < p.outputs) multiply_tile<count, kLanes>(p, row, o);
}

template <class Real>
DGAP_INLINE void multiply(const RowsProduct<Real>& p, std::int64_t count) {
  std::int64_t r = 0;
  for (; r + 8 <= count; r += 8) multiply_rows<8>(p, r);
  for (; r + 4 <= count; r += 4) multiply_rows<4>(p, r);
  if (count - r == 3) return multiply_rows<3>(p, r);
  if (count - r == 2) return multiply_rows<2>(p, r);
  if (count - r == 1) multiply_rows<1>(p, r);
}

}  // namespace rows
}  // namespace dgap::runtime
