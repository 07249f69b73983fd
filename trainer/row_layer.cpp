#include "trainer/row_layer.hpp"

#include <algorithm>

#include "base/fused.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;
using runtime::RowsProduct;

/// y[r] = start + sum_i x[r, i] w[i], i ascending, for `count` rows at once.
template <int count, class Real>
DGAP_INLINE void dot_tile(int inputs, const Real* w, Real start, const Real* x, std::int64_t stride,
                          Real* y) {
  Real sum[count];
  for (int r = 0; r < count; ++r) sum[r] = start;
  for (int i = 0; i < inputs; ++i) {
    for (int r = 0; r < count; ++r) sum[r] = base::multiply_add(x[r * stride + i], w[i], sum[r]);
  }
  for (int r = 0; r < count; ++r) y[r] = sum[r];
}

template <class Real>
DGAP_INLINE void dot_all(int inputs, const Real* w, Real start, const Real* x, std::int64_t stride,
                         Real* y, std::int64_t rows) {
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) dot_tile<8>(inputs, w, start, x + r * stride, stride, y + r);
  for (; r < rows; ++r) dot_tile<1>(inputs, w, start, x + r * stride, stride, y + r);
}

/// sums[o] = sum_r x[r, o], r ascending, for `width` numbers of every row.
template <int width, class Real>
DGAP_INLINE void sum_tile(const Real* x, std::int64_t stride, Real* sums, std::int64_t rows) {
  Real sum[width] = {};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int l = 0; l < width; ++l) sum[l] += x[r * stride + l];
  }
  for (int l = 0; l < width; ++l) sums[l] = sum[l];
}

template <class Real>
DGAP_INLINE void sum_all(const Real* x, std::int64_t stride, Real* sums, std::int64_t rows) {
  std::int64_t o = 0;
  for (; o + 4 * kLanes <= stride; o += 4 * kLanes) {
    sum_tile<4 * kLanes>(x + o, stride, sums + o, rows);
  }
  for (; o + kLanes <= stride; o += kLanes) sum_tile<kLanes>(x + o, stride, sums + o, rows);
  for (; o < stride; ++o) sum_tile<1>(x + o, stride, sums + o, rows);
}

DGAP_MULTIVERSION void dot(int inputs, const float* w, float start, const float* x,
                           std::int64_t stride, float* y, std::int64_t rows) {
  dot_all(inputs, w, start, x, stride, y, rows);
}
void dot(int inputs, const double* w, double start, const double* x, std::int64_t stride, double* y,
         std::int64_t rows) {
  dot_all(inputs, w, start, x, stride, y, rows);
}

DGAP_MULTIVERSION void sum_rows(const float* x, std::int64_t stride, float* sums,
                                std::int64_t rows) {
  sum_all(x, stride, sums, rows);
}
void sum_rows(const double* x, std::int64_t stride, double* sums, std::int64_t rows) {
  sum_all(x, stride, sums, rows);
}

}  // namespace

template <class Real>
RowLayer<Real>::RowLayer(const LayerSlots& slots, int shared, bool padded_output)
    : slots_(slots),
      shared_(shared),
      own_(slots.inputs - shared),
      input_stride_(base::padded_to_lanes(own_)),
      output_stride_(padded_output || slots.outputs > 1 ? base::padded_to_lanes(slots.outputs) : 1),
      weight_(slots.inputs * output_stride_),
      transposed_(shared == 0 ? slots.outputs * input_stride_ : 0),
      bias_(output_stride_),
      start_(output_stride_),
      sums_(output_stride_),
      shared_gradient_(shared * output_stride_),
      own_gradient_(single() ? input_stride_ : own_ * output_stride_),
      bias_gradient_(output_stride_) {}

template <class Real>
void RowLayer<Real>::begin(const Real* parameters) {
  const Real* const weight = parameters + slots_.weight;
  for (std::int64_t o = 0; o < slots_.outputs; ++o) {
    const Real* const from = weight + o * slots_.inputs;
    for (int i = 0; i < slots_.inputs; ++i) weight_[i * output_stride_ + o] = from[i];
    if (shared_ == 0) std::copy_n(from, own_, transposed_.begin() + o * input_stride_);
  }
  std::copy_n(parameters + slots_.bias, slots_.outputs, bias_.begin());
  for (auto* gathered : {&shared_gradient_, &own_gradient_, &bias_gradient_}) {
    std::fill(gathered->begin(), gathered->end(), Real(0));
  }
}

template <class Real>
void RowLayer<Real>::forward(const Real* shared, const Real* x, Real* y, std::int64_t rows) {
  const Real* const own_weight = weight_.data() + shared_ * output_stride_;
  if (single()) {
    dot(shared_, weight_.data(), bias_[0], shared, 0, start_.data(), 1);
    dot(own_, own_weight, start_[0], x, input_stride_, y, rows);
    return;
  }
  const int width = static_cast<int>(output_stride_);
  multiply(RowsProduct<Real>{shared_, width, shared, 0, 1, weight_.data(), output_stride_,
                             bias_.data(), 0, start_.data(), 0},
           1);
  multiply(RowsProduct<Real>{own_, width, x, input_stride_, 1, own_weight, output_stride_,
                             start_.data(), 0, y, output_stride_},
           rows);
}

template <class Real>
void RowLayer<Real>::gather_weights(const Real* x, const Real* up, std::int64_t rows) {
  Real* const to = own_gradient_.data();
  const int sums = static_cast<int>(rows);
  if (single()) {
    const int width = static_cast<int>(input_stride_);
    multiply(RowsProduct<Real>{sums, width, up, 0, 1, x, input_stride_, to, 0, to, 0}, 1);
  } else {
    const int width = static_cast<int>(output_stride_);
    multiply(RowsProduct<Real>{sums, width, x, 1, input_stride_, up, output_stride_, to,
                               output_stride_, to, output_stride_},
             own_);
  }
}

template <class Real>
void RowLayer<Real>::backward(const Real* shared, const Real* x, const Real* up, Real* down,
                              std::int64_t rows) {
  gather_weights(x, up, rows);
  sum_rows(up, output_stride_, sums_.data(), rows);
  accumulate(sums_.data(), bias_gradient_.data(), output_stride_);
  add_outer(shared_, output_stride_, shared, sums_.data(), shared_gradient_.data(), output_stride_);
  if (down == nullptr) return;
  multiply(RowsProduct<Real>{slots_.outputs, static_cast<int>(input_stride_), up, output_stride_, 1,
                             transposed_.data(), input_stride_, nullptr, 0, down, input_stride_},
           rows);
}

template <class Real>
void RowLayer<Real>::add_gradient(Real* gradient) const {
  for (std::int64_t o = 0; o < slots_.outputs; ++o) {
    Real* to = gradient + slots_.weight + o * slots_.inputs;
    for (int i = 0; i < shared_; ++i) *to++ += shared_gradient_[i * output_stride_ + o];
    for (int i = 0; i < own_; ++i) *to++ += own_gradient_[i * output_stride_ + o];
    gradient[slots_.bias + o] += bias_gradient_[o];
  }
}

template class RowLayer<float>;
template class RowLayer<double>;

}  // namespace dgap::trainer
