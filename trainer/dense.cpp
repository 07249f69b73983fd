#include "trainer/dense.hpp"

#include "base/multiversion.hpp"
#include "trainer/fold.hpp"
#include "trainer/functions.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;

/// outs x ins weights: the loop over lanes is the outer one, so that compilers keep all sums in
/// registers.
template <int outs, int ins, class Real>
DGAP_INLINE void gradient_tile(const Real* dy, const Real* x, Real* dw, std::int64_t width,
                               std::int64_t rows, std::int64_t stride) {
  Real sum[outs * ins][kLanes];
  for (int k = 0; k < outs * ins; ++k) {
    for (int l = 0; l < kLanes; ++l) sum[k][l] = 0;
  }
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      Real up[outs], in[ins];
      for (int o = 0; o < outs; ++o) up[o] = dy[o * stride + r + l];
      for (int i = 0; i < ins; ++i) in[i] = x[i * stride + r + l];
      for (int o = 0; o < outs; ++o) {
        for (int i = 0; i < ins; ++i) {
          sum[o * ins + i][l] = base::multiply_add(up[o], in[i], sum[o * ins + i][l]);
        }
      }
    }
  }
  Real lanes[outs * ins][kLanes];
  for (int k = 0; k < outs * ins; ++k) {
    for (int l = 0; l < kLanes; ++l) lanes[k][l] = sum[k][l];
  }
  for (int o = 0; o < outs; ++o) {
    for (int i = 0; i < ins; ++i) dw[o * width + i] += fold(lanes[o * ins + i]);
  }
}

template <int outs, class Real>
DGAP_INLINE void gradient_rows(int inputs, const Real* dy, const Real* x, Real* dw,
                               std::int64_t width, std::int64_t rows, std::int64_t stride) {
  int i = 0;
  for (; i + 4 <= inputs; i += 4) {
    gradient_tile<outs, 4>(dy, x + i * stride, dw + i, width, rows, stride);
  }
  for (; i < inputs; ++i) {
    gradient_tile<outs, 1>(dy, x + i * stride, dw + i, width, rows, stride);
  }
}

template <class Real>
DGAP_INLINE void gradient_all(int outputs, int inputs, const Real* dy, const Real* x, Real* dw,
                              std::int64_t width, std::int64_t rows, std::int64_t stride) {
  int o = 0;
  for (; o + 4 <= outputs; o += 4) {
    gradient_rows<4>(inputs, dy + o * stride, x, dw + o * width, width, rows, stride);
  }
  for (; o < outputs; ++o) {
    gradient_rows<1>(inputs, dy + o * stride, x, dw + o * width, width, rows, stride);
  }
}

template <class Real>
DGAP_INLINE void sum_rows(int outputs, const Real* dy, Real* sums, std::int64_t rows,
                          std::int64_t stride) {
  for (int o = 0; o < outputs; ++o) {
    Real lanes[kLanes] = {};
    for (std::int64_t r = 0; r < rows; r += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += dy[o * stride + r + l];
    }
    sums[o] = fold(lanes);
  }
}

template <class Real>
DGAP_INLINE void activate_all(int width, Real* x, Real* derivative, std::int64_t rows,
                              std::int64_t stride) {
  for (int n = 0; n < width; ++n) {
    Real* const value = x + n * stride;
    Real* const slope = derivative + n * stride;
    for (std::int64_t r = 0; r < rows; ++r) {
      const Activation<Real> a = activation(value[r]);
      value[r] = a.value;
      slope[r] = a.derivative;
    }
  }
}

template <class Real>
DGAP_INLINE void scale_all(int width, const Real* factor, Real* x, std::int64_t rows,
                           std::int64_t stride) {
  for (int n = 0; n < width; ++n) {
    for (std::int64_t r = 0; r < rows; ++r) x[n * stride + r] *= factor[n * stride + r];
  }
}

template <class Real>
DGAP_INLINE void outer(std::int64_t rows, std::int64_t columns, const Real* a, const Real* b,
                       Real* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r, to += stride) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = base::multiply_add(a[r], b[c], to[c]);
  }
}

}  // namespace

std::int64_t stride_for(std::int64_t rows) { return ((rows + kLanes - 1) / kLanes | 1) * kLanes; }

DGAP_MULTIVERSION void multiply(Weights shape, const float* w, const float* start, const float* x,
                                float* y, std::int64_t rows, std::int64_t stride) {
  runtime::columns::multiply(shape, w, start, x, y, rows, stride);
}
void multiply(Weights shape, const double* w, const double* start, const double* x, double* y,
              std::int64_t rows, std::int64_t stride) {
  runtime::columns::multiply(shape, w, start, x, y, rows, stride);
}

DGAP_MULTIVERSION void multiply(const runtime::RowsProduct<float>& product, std::int64_t rows) {
  runtime::rows::multiply(product, rows);
}
void multiply(const runtime::RowsProduct<double>& product, std::int64_t rows) {
  runtime::rows::multiply(product, rows);
}

DGAP_MULTIVERSION void sum_shared(Weights shape, const float* w, const float* bias, const float* x,
                                  float* start) {
  runtime::columns::sum_shared(shape, w, bias, x, start);
}
void sum_shared(Weights shape, const double* w, const double* bias, const double* x,
                double* start) {
  runtime::columns::sum_shared(shape, w, bias, x, start);
}

DGAP_MULTIVERSION void add_weight_gradient(int outputs, int inputs, const float* dy, const float* x,
                                           float* dw, std::int64_t width, std::int64_t rows,
                                           std::int64_t stride) {
  gradient_all(outputs, inputs, dy, x, dw, width, rows, stride);
}
void add_weight_gradient(int outputs, int inputs, const double* dy, const double* x, double* dw,
                         std::int64_t width, std::int64_t rows, std::int64_t stride) {
  gradient_all(outputs, inputs, dy, x, dw, width, rows, stride);
}

DGAP_MULTIVERSION void row_sums(int outputs, const float* dy, float* sums, std::int64_t rows,
                                std::int64_t stride) {
  sum_rows(outputs, dy, sums, rows, stride);
}
void row_sums(int outputs, const double* dy, double* sums, std::int64_t rows, std::int64_t stride) {
  sum_rows(outputs, dy, sums, rows, stride);
}

DGAP_MULTIVERSION void activate(int width, float* x, float* derivative, std::int64_t rows,
                                std::int64_t stride) {
  activate_all(width, x, derivative, rows, stride);
}
void activate(int width, double* x, double* derivative, std::int64_t rows, std::int64_t stride) {
  activate_all(width, x, derivative, rows, stride);
}

DGAP_MULTIVERSION void scale_by(int width, const float* factor, float* x, std::int64_t rows,
                                std::int64_t stride) {
  scale_all(width, factor, x, rows, stride);
}
void scale_by(int width, const double* factor, double* x, std::int64_t rows, std::int64_t stride) {
  scale_all(width, factor, x, rows, stride);
}

DGAP_MULTIVERSION void add(int width, const float* a, const float* b, float* to, std::int64_t rows,
                           std::int64_t stride) {
  runtime::columns::add(width, a, b, to, rows, stride);
}
void add(int width, const double* a, const double* b, double* to, std::int64_t rows,
         std::int64_t stride) {
  runtime::columns::add(width, a, b, to, rows, stride);
}

DGAP_MULTIVERSION void add_outer(std::int64_t rows, std::int64_t columns, const float* a,
                                 const float* b, float* to, std::int64_t stride) {
  outer(rows, columns, a, b, to, stride);
}
void add_outer(std::int64_t rows, std::int64_t columns, const double* a, const double* b,
               double* to, std::int64_t stride) {
  outer(rows, columns, a, b, to, stride);
}

DGAP_MULTIVERSION void accumulate(const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}
void accumulate(const double* from, double* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace dgap::trainer
