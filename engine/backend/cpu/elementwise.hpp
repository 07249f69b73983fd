#pragma once
#include <cstdint>

/// Row-wise functions in f32; the same bits at every instruction set.
namespace dgap::engine {

/// out = x / sqrt(mean(x^2) + epsilon) * weight, all of length n.
void rms_norm(std::int64_t n, const float* x, const float* weight, float epsilon, float* out);

/// Rows of 32 values {16 gates g, 16 ups u} become 16 values silu(g) * u, silu(g) = g / (1 + e^-g),
/// in place at the beginning of each row.
void swiglu(std::int64_t rows, float* values);

/// Adds `bias` [n] to each of `rows` rows of n values that lie `stride` floats apart.
void add_bias(std::int64_t rows, std::int64_t n, const float* bias, float* x, std::int64_t stride);

/// Whether rows of n values, `stride` apart, hold neither NaN nor infinities.
bool all_finite(std::int64_t rows, std::int64_t n, const float* x, std::int64_t stride);

}  // namespace dgap::engine
