#pragma once
#include <cstdint>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include "engine/backend/cpu/buffer.hpp"
#include "engine/backend/cpu/kernels.hpp"

namespace dgap::engine {

/// Rows that go into a matrix product, in its compute type and layout (kernels.hpp). Columns
/// between `width` and the padded depth stay zero.
class Activations {
 public:
  Activations() = default;
  Activations(Compute compute, std::int64_t width) : compute_(compute), width_(width) {}

  /// Room for `rows` rows; contents are lost when it has to grow.
  void reserve(std::int64_t rows);

  /// Columns [column, column + n) of a row, rounded to bf16 where that is the compute type.
  void store(std::int64_t row, std::int64_t column, std::int64_t n, const float* values);
  /// The same for `rows` rows of values that lie `stride` floats apart, in one slab: column % 32 +
  /// n
  /// <= 32.
  void store_rows(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t n,
                  const float* values, std::int64_t stride);

  const void* row(std::int64_t row) const;
  std::int64_t stride() const { return compute_ == Compute::f32 ? width_ : slab_rows_; }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t slab_offset(std::int64_t row, std::int64_t column) const {
    return (column / kDepthStep * slab_rows_ + row) * kDepthStep + column % kDepthStep;
  }
  Compute compute_ = Compute::f32;
  std::int64_t width_ = 0, capacity_ = 0, slab_rows_ = 0;
  Buffer<float> floats_;
  Buffer<std::uint16_t> slabs_;
};

/// A weight matrix [outputs, inputs] in panels of 32 outputs.
class PanelMatrix {
 public:
  PanelMatrix() = default;
  /// Zeros. Outputs are padded to whole panels.
  PanelMatrix(const ProductKernel& kernel, std::int64_t outputs, std::int64_t inputs);

  std::int64_t outputs() const { return outputs_; }
  std::int64_t inputs() const { return inputs_; }
  std::int64_t panels() const { return round_up<std::int64_t>(outputs_, kPanel) / kPanel; }

  void set_row(std::int64_t output, const float* weights);
  /// The weights of one output, as rounded: the row of an embedding.
  void row(std::int64_t output, float* weights) const;

  /// Rows [first, first + rows) of x times a panel: c[rows, 32], `ldc` floats between rows, with
  /// room for rows rounded up to kRowStep. Within a KernelScope.
  void multiply(std::int64_t panel, const Activations& x, std::int64_t first, std::int64_t rows,
                float* c, std::int64_t ldc, bool add) const {
    kernel_->product(rows, depth_, x.row(first), x.stride(), this->panel(panel), c, ldc, add);
  }
  const ProductKernel& kernel() const { return *kernel_; }

 private:
  const void* panel(std::int64_t panel) const;

  const ProductKernel* kernel_ = nullptr;
  std::int64_t outputs_ = 0, inputs_ = 0, depth_ = 0;
  Buffer<float> floats_;
  Buffer<std::uint16_t> pairs_;
};

/// Calls task(panel, first_row, rows) for every panel and every group of rows, in parallel. Every
/// call is independent of the others, so the schedule does not matter for results.
template <class Task>
void for_each_panel(const PanelMatrix& matrix, std::int64_t rows, const Task& task) {
  constexpr std::int64_t kRowGroup = 256;  // a panel stays in the first-level caches meanwhile
  const std::int64_t groups = (rows + kRowGroup - 1) / kRowGroup;
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::int64_t>(0, matrix.panels() * groups),
                            [&](const auto& range) {
                              const KernelScope scope(matrix.kernel());
                              for (std::int64_t i = range.begin(); i < range.end(); ++i) {
                                const std::int64_t first = i % groups * kRowGroup;
                                task(i / groups, first, std::min(kRowGroup, rows - first));
                              }
                            });
}

/// y[rows, outputs] (+)= x W^T; y has room for rows rounded up to kRowStep.
void multiply(const PanelMatrix& matrix, const Activations& x, std::int64_t rows, float* y,
              bool add);

/// One panel of y[., ldy]: like PanelMatrix::multiply, but writes only the first `columns` of the
/// panel.
void multiply_panel(const PanelMatrix& matrix, std::int64_t panel, const Activations& x,
                    std::int64_t first, std::int64_t rows, std::int64_t columns, float* y,
                    std::int64_t ldy, bool add);

}  // namespace dgap::engine
