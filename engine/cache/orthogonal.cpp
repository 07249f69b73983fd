#include "engine/cache/orthogonal.hpp"

#include <cmath>
#include <cstddef>

#include "base/multiversion.hpp"
#include "engine/cache/rows.hpp"

namespace dgap::engine {
namespace {

/// x -> sum over i of x[i] * lines[i], in place.
DGAP_MULTIVERSION void combine(std::size_t width, const float* lines, float* x) {
  float sum[kMaxHeadDim];
  for (std::size_t c = 0; c < width; ++c) sum[c] = 0.0f;
  for (std::size_t i = 0; i < width; ++i, lines += width)
    for (std::size_t c = 0; c < width; ++c) sum[c] += x[i] * lines[c];
  for (std::size_t c = 0; c < width; ++c) x[c] = sum[c];
}

std::vector<double> gaussian_entries(int width, base::Random& random) {
  std::vector<double> entries(static_cast<std::size_t>(width) * static_cast<std::size_t>(width));
  for (double& entry : entries) entry = random.normal();
  return entries;
}

/// Gram-Schmidt on the rows, each made orthogonal to the earlier ones twice.
void orthonormalise(std::size_t width, std::vector<double>& rows) {
  const auto dot = [width](const double* a, const double* b) {
    double sum = 0.0;
    for (std::size_t c = 0; c < width; ++c) sum += a[c] * b[c];
    return sum;
  };
  for (std::size_t r = 0; r < width; ++r) {
    double* row = &rows[r * width];
    for (std::size_t k = 0; k < 2 * r; ++k) {
      const double* earlier = &rows[k % r * width];
      const double part = dot(row, earlier);
      for (std::size_t c = 0; c < width; ++c) row[c] -= part * earlier[c];
    }
    const double norm = std::sqrt(dot(row, row));
    for (std::size_t c = 0; c < width; ++c) row[c] /= norm;
  }
}

}  // namespace

DenseMatrix::DenseMatrix(int width, std::vector<float> rows)
    : width_(width), rows_(std::move(rows)), columns_(rows_.size()) {
  const auto n = static_cast<std::size_t>(width);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = 0; c < n; ++c) columns_[c * n + r] = rows_[r * n + c];
}

void DenseMatrix::apply(float* x) const {
  combine(static_cast<std::size_t>(width_), columns_.data(), x);
}

void DenseMatrix::apply_transposed(float* x) const {
  combine(static_cast<std::size_t>(width_), rows_.data(), x);
}

DenseMatrix gaussian_matrix(int width, base::Random& random) {
  const std::vector<double> entries = gaussian_entries(width, random);
  return {width, std::vector<float>(entries.begin(), entries.end())};
}

DenseMatrix haar_matrix(int width, base::Random& random) {
  std::vector<double> entries = gaussian_entries(width, random);
  orthonormalise(static_cast<std::size_t>(width), entries);
  return {width, std::vector<float>(entries.begin(), entries.end())};
}

}  // namespace dgap::engine
