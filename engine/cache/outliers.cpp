#include "engine/cache/outliers.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/cache/rows.hpp"

namespace dgap::engine {

Outliers::Outliers(const schemas::TensorScheme& tensor, int head_dim, std::int64_t begin,
                   std::int64_t end, const RowReader& read)
    : count_(schemas::outlier_channels(tensor, head_dim)) {
  if (count_ == 0) return;
  const auto width = static_cast<std::size_t>(head_dim);
  std::vector<double> squares(width, 0.0);
  std::vector<float> row(width);
  for (std::int64_t t = begin; t < end; ++t) {
    read(t, t + 1, row.data());
    for (std::size_t c = 0; c < width; ++c)
      squares[c] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
  }
  order_.resize(width);
  std::iota(order_.begin(), order_.end(), std::uint16_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::uint16_t a, std::uint16_t b) { return squares[a] > squares[b]; });
  std::sort(order_.begin(), order_.begin() + count_);
  std::sort(order_.begin() + count_, order_.end());
}

void Outliers::first(std::int64_t rows, float* x) const {
  std::array<float, kMaxHeadDim> moved;
  for (std::int64_t r = 0; r < (order_.empty() ? 0 : rows); ++r, x += order_.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) moved[i] = x[order_[i]];
    std::copy_n(moved.begin(), order_.size(), x);
  }
}

void Outliers::back(std::int64_t rows, float* x) const {
  std::array<float, kMaxHeadDim> moved;
  for (std::int64_t r = 0; r < (order_.empty() ? 0 : rows); ++r, x += order_.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) moved[order_[i]] = x[i];
    std::copy_n(moved.begin(), order_.size(), x);
  }
}

}  // namespace dgap::engine
