#include "engine/cache/variance_scales.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/multiversion.hpp"
#include "engine/cache/lanes.hpp"

namespace dgap::engine {
namespace {

/// One or sixteen neighbouring columns' sums over r of (x[r] * factor[r] - mean)^power, in f64.
struct One {
  double sum = 0.0;
  DGAP_INLINE void add(const float* x, double factor) { sum += static_cast<double>(*x) * factor; }
  DGAP_INLINE void add_square(const float* x, double factor, const One& mean) {
    const double away = static_cast<double>(*x) * factor - mean.sum;
    sum += away * away;
  }
  DGAP_INLINE void divide(double n) { sum /= n; }
  DGAP_INLINE void store(double* out) const { *out = sum; }
};
struct Sixteen {
  Doubles8 low{}, high{};
  DGAP_INLINE void add(const float* x, double factor) {
    Doubles8 a, b;
    widen(x, a, b);
    low = low + a * factor;
    high = high + b * factor;
  }
  DGAP_INLINE void add_square(const float* x, double factor, const Sixteen& mean) {
    Doubles8 a, b;
    widen(x, a, b);
    a = a * factor - mean.low;
    b = b * factor - mean.high;
    low = low + a * a;
    high = high + b * b;
  }
  DGAP_INLINE void divide(double n) {
    low = low / n;
    high = high / n;
  }
  DGAP_INLINE void store(double* out) const {
    std::memcpy(out, &low, sizeof low);
    std::memcpy(out + 8, &high, sizeof high);
  }

 private:
  static DGAP_INLINE void widen(const float* x, Doubles8& a, Doubles8& b) {
    Floats16 values;
    load(x, values);
    to_double(values, a, b);
  }
};

template <class Columns>
DGAP_INLINE void mean_squares(std::size_t rows, std::size_t stride, const float* x,
                              const double* factors, double* out) {
  Columns mean, square;
  for (std::size_t r = 0; r < rows; ++r) mean.add(x + r * stride, factors[r]);
  mean.divide(static_cast<double>(rows));
  for (std::size_t r = 0; r < rows; ++r) square.add_square(x + r * stride, factors[r], mean);
  square.divide(static_cast<double>(rows - 1));
  square.store(out);
}

/// Unbiased standard deviations over r of x[r, c] / row[r] / column[c]; factors [rows] is scratch.
DGAP_MULTIVERSION void deviations(std::size_t rows, std::size_t columns, const float* x,
                                  const double* row, const double* column, double* factors,
                                  double* out) {
  for (std::size_t r = 0; r < rows; ++r) factors[r] = 1.0 / row[r];
  std::size_t c = 0;
  for (; c + 16 <= columns; c += 16) mean_squares<Sixteen>(rows, columns, x + c, factors, out + c);
  for (; c < columns; ++c) mean_squares<One>(rows, columns, x + c, factors, out + c);
  for (c = 0; c < columns; ++c) out[c] = std::sqrt(out[c]) / column[c];
}

/// Standard deviations of the tile's rows and columns under some scales.
class Balance {
 public:
  Balance(std::size_t rows, std::size_t columns, const float* x)
      : rows_(rows),
        columns_(columns),
        x_(x),
        turned_(rows * columns),
        factors_(std::max(rows, columns)),
        row_std_(rows),
        column_std_(columns) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) turned_[c * rows + r] = x[r * columns + c];
  }

  void measure_rows(const VarianceScales& scales) {
    deviations(columns_, rows_, turned_.data(), scales.columns.data(), scales.rows.data(),
               factors_.data(), row_std_.data());
  }
  void measure(const VarianceScales& scales) {
    measure_rows(scales);
    deviations(rows_, columns_, x_, scales.rows.data(), scales.columns.data(), factors_.data(),
               column_std_.data());
  }
  const std::vector<double>& row_std() const { return row_std_; }
  const std::vector<double>& column_std() const { return column_std_; }
  double imbalance() const { return spread(column_std_) + spread(row_std_); }

 private:
  static double spread(const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return *high / std::max(*low, 1e-8);
  }

  std::size_t rows_, columns_;
  const float* x_;
  std::vector<float> turned_;
  std::vector<double> factors_, row_std_, column_std_;
};

/// log scale <- clip(log scale + ln clip(standard deviation)), without the logarithms.
void step(const std::vector<double>& spreads, std::vector<double>& scales) {
  constexpr double kLowest = 0.74081822068171786607;  // e^-0.3
  constexpr double kHighest = 22026.465794806716517;  // e^10
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = std::clamp(scales[i] * std::clamp(spreads[i], 1e-3, 1e3), kLowest, kHighest);
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
    balance.measure_rows(scales);
    step(balance.row_std(), scales.rows);
    balance.measure(scales);
    if (balance.imbalance() > lowest) continue;
    lowest = balance.imbalance();
    best = scales;
  }
  return best;
}

}  // namespace dgap::engine
