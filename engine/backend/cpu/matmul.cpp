#include "engine/backend/cpu/matmul.hpp"

#include <algorithm>
#include <cstring>

#include "base/half.hpp"
#include "base/multiversion.hpp"

namespace dgap::engine {
namespace {

DGAP_MULTIVERSION void round_rows(std::int64_t rows, std::int64_t n, const float* from,
                                  std::int64_t stride, std::uint16_t* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i)
      to[r * kDepthStep + i] = base::to_bfloat16(from[r * stride + i]);
}

/// Columns [column, column + n) of a row whose slabs are `slab` values apart.
DGAP_MULTIVERSION void round_columns(std::int64_t column, std::int64_t n, const float* from,
                                     std::int64_t slab, std::uint16_t* row) {
  while (n > 0) {
    std::uint16_t* to = row + column / kDepthStep * slab + column % kDepthStep;
    const std::int64_t some = std::min(n, kDepthStep - column % kDepthStep);
    for (std::int64_t i = 0; i < some; ++i) to[i] = base::to_bfloat16(from[i]);
    column += some, from += some, n -= some;
  }
}

}  // namespace

void Activations::reserve(std::int64_t rows) {
  if (rows <= capacity_) return;
  capacity_ = round_up<std::int64_t>(std::max<std::int64_t>(rows, 2 * capacity_), kRowStep);
  if (compute_ == Compute::f32) {
    floats_.reset(capacity_ * width_);
    return;
  }
  slab_rows_ = capacity_ + kRowStep;  // not a power of two apart: slabs share no cache sets
  slabs_.reset(round_up<std::int64_t>(width_, kDepthStep) * slab_rows_);
}

void Activations::store(std::int64_t row, std::int64_t column, std::int64_t n,
                        const float* values) {
  if (compute_ == Compute::bf16)
    round_columns(column, n, values, slab_rows_ * kDepthStep, slabs_.data() + row * kDepthStep);
  else
    std::copy_n(values, n, floats_.data() + row * width_ + column);
}

void Activations::store_rows(std::int64_t row, std::int64_t rows, std::int64_t column,
                             std::int64_t n, const float* values, std::int64_t stride) {
  if (compute_ == Compute::bf16) {
    round_rows(rows, n, values, stride, slabs_.data() + slab_offset(row, column));
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(values + r * stride, n, floats_.data() + (row + r) * width_ + column);
}

const void* Activations::row(std::int64_t row) const {
  if (compute_ == Compute::f32) return floats_.data() + row * width_;
  return slabs_.data() + row * kDepthStep;
}

PanelMatrix::PanelMatrix(const ProductKernel& kernel, std::int64_t outputs, std::int64_t inputs)
    : kernel_(&kernel), outputs_(outputs), inputs_(inputs), depth_(inputs) {
  if (kernel.compute == Compute::f32) {
    floats_.reset(panels() * kPanel * depth_);
  } else {
    depth_ = round_up<std::int64_t>(inputs, kDepthStep);
    pairs_.reset(panels() * kPanel * depth_);
  }
}

const void* PanelMatrix::panel(std::int64_t panel) const {
  const std::int64_t offset = panel * kPanel * depth_;
  if (kernel_->compute == Compute::f32) return floats_.data() + offset;
  return pairs_.data() + offset;
}

void PanelMatrix::set_row(std::int64_t output, const float* weights) {
  const std::int64_t first = output / kPanel * kPanel * depth_, column = output % kPanel;
  if (kernel_->compute == Compute::f32) {
    float* to = floats_.data() + first + column;
    for (std::int64_t i = 0; i < inputs_; ++i) to[i * kPanel] = weights[i];
    return;
  }
  std::uint16_t* to = pairs_.data() + first + 2 * column;
  for (std::int64_t i = 0; i < inputs_; ++i)
    to[i / 2 * 2 * kPanel + i % 2] = base::to_bfloat16(weights[i]);
}

void PanelMatrix::row(std::int64_t output, float* weights) const {
  const std::int64_t first = output / kPanel * kPanel * depth_, column = output % kPanel;
  if (kernel_->compute == Compute::f32) {
    const float* from = floats_.data() + first + column;
    for (std::int64_t i = 0; i < inputs_; ++i) weights[i] = from[i * kPanel];
    return;
  }
  const std::uint16_t* from = pairs_.data() + first + 2 * column;
  for (std::int64_t i = 0; i < inputs_; ++i)
    weights[i] = base::from_bfloat16(from[i / 2 * 2 * kPanel + i % 2]);
}

void multiply_panel(const PanelMatrix& matrix, std::int64_t panel, const Activations& x,
                    std::int64_t first, std::int64_t rows, std::int64_t columns, float* y,
                    std::int64_t ldy, bool add) {
  if (columns >= kPanel) {
    matrix.multiply(panel, x, first, rows, y, ldy, add);
    return;
  }
  constexpr std::int64_t kRows = 64;
  float c[kRows * kPanel];
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t some = std::min(kRows, rows - r);
    matrix.multiply(panel, x, first + r, some, c, kPanel, false);
    for (std::int64_t i = 0; i < some; ++i) {
      float* to = y + (r + i) * ldy;
      for (std::int64_t j = 0; j < columns; ++j)
        to[j] = add ? to[j] + c[i * kPanel + j] : c[i * kPanel + j];
    }
  }
}

void multiply(const PanelMatrix& matrix, const Activations& x, std::int64_t rows, float* y,
              bool add) {
  const std::int64_t outputs = matrix.outputs();
  for_each_panel(matrix, rows, [&](std::int64_t panel, std::int64_t first, std::int64_t count) {
    multiply_panel(matrix, panel, x, first, count, outputs - panel * kPanel,
                   y + first * outputs + panel * kPanel, outputs, add);
  });
}

}  // namespace dgap::engine
