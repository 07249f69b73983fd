#include "engine/cache/centring.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/multiversion.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kChunkRows = 64;
constexpr float kRmsFloor = 1e-6f;

float stored(double x) { return base::from_half(to_half_saturated(static_cast<float>(x))); }

DGAP_MULTIVERSION void add_rows(std::int64_t rows, std::size_t width, const float* x,
                                double* sums) {
  for (std::int64_t r = 0; r < rows; ++r, x += width)
    for (std::size_t c = 0; c < width; ++c) sums[c] += static_cast<double>(x[c]);
}

DGAP_MULTIVERSION void add_squares(std::int64_t rows, std::size_t width, const float* x,
                                   const float* mean, double* sums) {
  for (std::int64_t r = 0; r < rows; ++r, x += width)
    for (std::size_t c = 0; c < width; ++c) {
      const double d = static_cast<double>(x[c]) - static_cast<double>(mean[c]);
      sums[c] += d * d;
    }
}

DGAP_MULTIVERSION void centre(std::int64_t rows, std::size_t width, const float* mean,
                              const float* rms, float* x) {
  for (std::int64_t r = 0; r < rows; ++r, x += width)
    for (std::size_t c = 0; c < width; ++c) x[c] = (x[c] - mean[c]) / rms[c];
}

DGAP_MULTIVERSION void restore(std::int64_t rows, std::size_t width, const float* mean,
                               const float* rms, float* x) {
  for (std::int64_t r = 0; r < rows; ++r, x += width)
    for (std::size_t c = 0; c < width; ++c) x[c] = x[c] * rms[c] + mean[c];
}

DGAP_MULTIVERSION void restore_sums(std::int64_t rows, std::size_t width, const float* mass,
                                    const float* mean, const float* rms, float* x) {
  for (std::int64_t r = 0; r < rows; ++r, x += width)
    for (std::size_t c = 0; c < width; ++c) x[c] = x[c] * rms[c] + mass[r] * mean[c];
}

}  // namespace

Centring::Centring(const schemas::TensorScheme& tensor, int head_dim, std::int64_t begin,
                   std::int64_t end, const RowReader& read) {
  if (!tensor.center && !tensor.normalize) return;
  const auto width = static_cast<std::size_t>(head_dim);
  mean_.assign(width, 0.0f);
  rms_.assign(width, 1.0f);
  bytes_ = 2 * head_dim * (int{tensor.center} + int{tensor.normalize});
  if (begin >= end) return;

  std::vector<float> rows(static_cast<std::size_t>(kChunkRows) * width);
  std::vector<double> sums(width);
  const auto pass = [&](auto&& add) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t t = begin; t < end; t += kChunkRows) {
      const std::int64_t to = std::min(end, t + kChunkRows);
      read(t, to, rows.data());
      add(to - t);
    }
    for (double& sum : sums) sum /= static_cast<double>(end - begin);
  };
  if (tensor.center) {
    pass([&](std::int64_t n) { add_rows(n, width, rows.data(), sums.data()); });
    std::transform(sums.begin(), sums.end(), mean_.begin(), stored);
  }
  if (tensor.normalize) {
    pass([&](std::int64_t n) { add_squares(n, width, rows.data(), mean_.data(), sums.data()); });
    std::transform(sums.begin(), sums.end(), rms_.begin(), [](double square) {
      return stored(std::max(static_cast<float>(std::sqrt(square)), kRmsFloor));
    });
  }
}

void Centring::apply(std::int64_t rows, float* x) const {
  if (!empty()) centre(rows, mean_.size(), mean_.data(), rms_.data(), x);
}

void Centring::undo(std::int64_t rows, float* x) const {
  if (!empty()) restore(rows, mean_.size(), mean_.data(), rms_.data(), x);
}

void Centring::undo_sum(std::int64_t rows, const float* mass, float* x) const {
  if (!empty()) restore_sums(rows, mean_.size(), mass, mean_.data(), rms_.data(), x);
}

}  // namespace dgap::engine
