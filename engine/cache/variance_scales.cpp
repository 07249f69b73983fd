#include "engine/cache/variance_scales.hpp"

#include <algorithm>
#include <cmath>

#include "base/multiversion.hpp"

namespace dgap::engine {
namespace {

/// sums[c] += x[r, c] / (row[r] * column[c]), and the squares of what that is away from mean[c].
DGAP_MULTIVERSION void column_moments(std::size_t rows, std::size_t columns, const double* x,
                                      double* mean, double* square) {
  const auto n = static_cast<double>(rows);
  for (std::size_t c = 0; c < columns; ++c) mean[c] = square[c] = 0.0;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) mean[c] += x[r * columns + c];
  for (std::size_t c = 0; c < columns; ++c) mean[c] /= n;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const double away = x[r * columns + c] - mean[c];
      square[c] += away * away;
    }
}

DGAP_MULTIVERSION void scale_tile(std::size_t rows, std::size_t columns, const float* x,
                                  const double* row, const double* column, double* out) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      out[r * columns + c] = static_cast<double>(x[r * columns + c]) / (row[r] * column[c]);
}

class Balance {
 public:
  Balance(std::size_t rows, std::size_t columns, const float* x)
      : rows_(rows),
        columns_(columns),
        x_(x),
        scaled_(rows * columns),
        turned_(rows * columns),
        mean_(std::max(rows, columns)),
        row_std_(rows),
        column_std_(columns) {}

  /// Standard deviations of the tile under these scales.
  void measure(const VarianceScales& scales) {
    scale_tile(rows_, columns_, x_, scales.rows.data(), scales.columns.data(), scaled_.data());
    for (std::size_t r = 0; r < rows_; ++r)
      for (std::size_t c = 0; c < columns_; ++c) turned_[c * rows_ + r] = scaled_[r * columns_ + c];
    deviations(rows_, columns_, scaled_, column_std_);
    deviations(columns_, rows_, turned_, row_std_);
  }
  const std::vector<double>& row_std() const { return row_std_; }
  const std::vector<double>& column_std() const { return column_std_; }
  double imbalance() const { return spread(column_std_) + spread(row_std_); }

 private:
  void deviations(std::size_t rows, std::size_t columns, const std::vector<double>& x,
                  std::vector<double>& out) {
    column_moments(rows, columns, x.data(), mean_.data(), out.data());
    for (double& square : out) square = std::sqrt(square / static_cast<double>(rows - 1));
  }
  static double spread(const std::vector<double>& deviations) {
    const auto [low, high] = std::minmax_element(deviations.begin(), deviations.end());
    return *high / std::max(*low, 1e-8);
  }

  std::size_t rows_, columns_;
  const float* x_;
  std::vector<double> scaled_, turned_, mean_, row_std_, column_std_;
};

/// log scale <- clip(log scale + ln clip(deviation)), in place.
void step(const std::vector<double>& deviations, std::vector<double>& scales) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const double gain = std::log(std::clamp(deviations[i], 1e-3, 1e3));
    scales[i] = std::exp(std::clamp(std::log(scales[i]) + gain, -0.3, 10.0));
  }
}

}  // namespace

VarianceScales variance_scales(std::size_t rows, std::size_t columns, const float* x,
                               int iterations) {
  VarianceScales scales{std::vector<double>(rows, 1.0), std::vector<double>(columns, 1.0)};
  VarianceScales best = scales;
  Balance balance(rows, columns, x);
  balance.measure(scales);
  double lowest = balance.imbalance();
  for (int i = 0; i < iterations; ++i) {
    step(balance.column_std(), scales.columns);
    balance.measure(scales);
    step(balance.row_std(), scales.rows);
    balance.measure(scales);
    if (balance.imbalance() > lowest) continue;
    lowest = balance.imbalance();
    best = scales;
  }
  return best;
}

}  // namespace dgap::engine
