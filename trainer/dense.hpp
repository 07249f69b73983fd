#pragma once
#include <cstdint>

#include "runtime/columns.hpp"
#include "runtime/rows.hpp"

/// The loops of dense layers. A matrix [width, rows] holds one row of numbers per neuron, `stride`
/// apart, and one column per sample; `rows` is a multiple of base::kLanes, and loops run over
/// samples, so no sum crosses lanes but those of the weights' gradient, which are folded in one
/// order. Every function exists in f32 (vectorised, what trains) and in f64 (for gradient checks).
namespace dgap::trainer {

/// Stride of a matrix of `rows` columns: an odd number of cache lines, so that neurons do not
/// compete for the same cache sets.
std::int64_t stride_for(std::int64_t rows);

/// y[o, r] = start[o] + sum_i x[i, r] w[o * out_step + i * in_step], i ascending (start null: 0).
/// The forward pass has out_step = inputs of the layer, in_step = 1; the gradient with respect to
/// the inputs is the same sum with the steps exchanged. The forward pass has the bits of
/// runtime::Network and runtime::Transformer.
using runtime::Weights;
void multiply(Weights shape, const float* w, const float* start, const float* x, float* y,
              std::int64_t rows, std::int64_t stride);
void multiply(Weights shape, const double* w, const double* start, const double* x, double* y,
              std::int64_t rows, std::int64_t stride);

/// The kernel of matrices with one row per sample, `rows` of them.
void multiply(const runtime::RowsProduct<float>& product, std::int64_t rows);
void multiply(const runtime::RowsProduct<double>& product, std::int64_t rows);

/// start[o] = bias[o] + sum_i x[i] w[o * out_step + i * in_step], i ascending.
void sum_shared(Weights shape, const float* w, const float* bias, const float* x, float* start);
void sum_shared(Weights shape, const double* w, const double* bias, const double* x, double* start);

/// dw[o, i] += sum_r dy[o, r] x[i, r]; rows of dw are `width` apart.
void add_weight_gradient(int outputs, int inputs, const float* dy, const float* x, float* dw,
                         std::int64_t width, std::int64_t rows, std::int64_t stride);
void add_weight_gradient(int outputs, int inputs, const double* dy, const double* x, double* dw,
                         std::int64_t width, std::int64_t rows, std::int64_t stride);

/// sums[o] = sum_r dy[o, r]
void row_sums(int outputs, const float* dy, float* sums, std::int64_t rows, std::int64_t stride);
void row_sums(int outputs, const double* dy, double* sums, std::int64_t rows, std::int64_t stride);

/// x[n, r] becomes gelu(x), derivative[n, r] its derivative.
void activate(int width, float* x, float* derivative, std::int64_t rows, std::int64_t stride);
void activate(int width, double* x, double* derivative, std::int64_t rows, std::int64_t stride);

/// x[n, r] *= factor[n, r]
void scale_by(int width, const float* factor, float* x, std::int64_t rows, std::int64_t stride);
void scale_by(int width, const double* factor, double* x, std::int64_t rows, std::int64_t stride);

/// to[n, r] = a[n, r] + b[n, r]
void add(int width, const float* a, const float* b, float* to, std::int64_t rows,
         std::int64_t stride);
void add(int width, const double* a, const double* b, double* to, std::int64_t rows,
         std::int64_t stride);

/// to[r, c] += a[r] b[c]; rows of `to` are `stride` apart.
void add_outer(std::int64_t rows, std::int64_t columns, const float* a, const float* b, float* to,
               std::int64_t stride);
void add_outer(std::int64_t rows, std::int64_t columns, const double* a, const double* b,
               double* to, std::int64_t stride);

/// to[i] += from[i]
void accumulate(const float* from, float* to, std::int64_t count);
void accumulate(const double* from, double* to, std::int64_t count);

}  // namespace dgap::trainer
