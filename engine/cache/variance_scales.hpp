#pragma once
#include <cstddef>
#include <vector>

namespace dgap::engine {

/// Scales that even out the standard deviations of a matrix's rows and columns.
struct VarianceScales {
  std::vector<double> rows, columns;  // positive; entry (r, c) is divided by rows[r] * columns[c]
};

/// KVarN's iteration over x [rows, columns]: log scales, from 0, gain the logarithm of the unbiased
/// standard deviations of the scaled columns, then rows (deviations clipped to [1e-3, 1e3], log
/// scales to [-0.3, 10]); kept are the scales of the lowest imbalance, max/min deviation of the
/// columns plus that of the rows, the start among them. rows, columns >= 2.
VarianceScales variance_scales(std::size_t rows, std::size_t columns, const float* x,
                               int iterations);

}  // namespace dgap::engine
