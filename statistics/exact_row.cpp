#include "statistics/exact_row.hpp"

#include <algorithm>
#include <limits>

#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"

namespace dgap::statistics {
namespace {

using base::kLanes;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// First pass, per lane: maximum, number of finite entries, whether a NaN or +inf was seen. More
/// lanes than the compiler would unroll into scalar code.
struct ExtentLanes {
  static constexpr int kCount = 64;
  float max[kCount];
  std::int32_t finite[kCount] = {};  // at most n / kCount
  std::int32_t bad[kCount] = {};

  DGAP_INLINE ExtentLanes() {
    for (int j = 0; j < kCount; ++j) max[j] = -kInfinity;
  }
  DGAP_INLINE void add(const float* x) {
    for (int j = 0; j < kCount; ++j) {
      max[j] = x[j] > max[j] ? x[j] : max[j];
      finite[j] += x[j] > -kInfinity ? 1 : 0;
      bad[j] |= x[j] < kInfinity ? 0 : 1;
    }
  }
};

/// Second pass, per lane: sums of exp(z - max) and of exp(z - max) (z - max).
struct SumLanes {
  double e[kLanes] = {};
  double ed[kLanes] = {};

  /// kept [kLanes] gets the exponentials, unless it is null.
  DGAP_INLINE void add(const float* x, double max, double* kept) {
    for (int j = 0; j < kLanes; ++j) {
      const double d = static_cast<double>(x[j]) - max;
      // exp(-708) = 3e-308 for all that is lower, -inf among it: nothing beside the maximum's 1.
      const double bounded = d < -708.0 ? -708.0 : d;
      const double p = base::exp_normal_f64(bounded);
      e[j] += p;
      ed[j] += p * bounded;
      if (kept != nullptr) kept[j] = d < -708.0 ? 0.0 : p;
    }
  }
  DGAP_INLINE void fold() {
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) e[j] += e[j + width], ed[j] += ed[j + width];
    }
  }
};

/// The last, partial block of a row, filled up with -inf, which counts nothing anywhere.
template <int kCount>
struct Tail {
  float lanes[kCount];
  DGAP_INLINE Tail(const float* from, std::int64_t left) {
    for (int j = 0; j < kCount; ++j) lanes[j] = j < left ? from[j] : -kInfinity;
  }
};

struct Extent {
  float max = -kInfinity;
  std::int64_t finite = 0;
  bool valid = true;
};

DGAP_MULTIVERSION Extent extent_of(const float* z, std::int64_t n) {
  ExtentLanes lanes;
  constexpr int kCount = ExtentLanes::kCount;
  std::int64_t i = 0;
  for (; i + kCount <= n; i += kCount) lanes.add(z + i);
  if (i < n) lanes.add(Tail<kCount>(z + i, n - i).lanes);
  Extent extent;
  for (int j = 0; j < kCount; ++j) {
    extent.max = std::max(extent.max, lanes.max[j]);
    extent.finite += lanes.finite[j];
    extent.valid = extent.valid && lanes.bad[j] == 0;
  }
  return extent;
}

struct Sums {
  double e = 0.0, ed = 0.0;
};

DGAP_INLINE Sums sums_of(const float* z, std::int64_t n, double max, double* kept) {
  SumLanes lanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    lanes.add(z + i, max, kept == nullptr ? nullptr : kept + i);
  }
  if (i < n) {
    double tail[kLanes];
    lanes.add(Tail<kLanes>(z + i, n - i).lanes, max, tail);
    if (kept != nullptr) std::copy(tail, tail + (n - i), kept + i);
  }
  lanes.fold();
  return {lanes.e[0], lanes.ed[0]};
}

DGAP_MULTIVERSION Sums exponential_sums(const float* z, std::int64_t n, double max) {
  return sums_of(z, n, max, nullptr);
}
DGAP_MULTIVERSION Sums kept_exponential_sums(const float* z, std::int64_t n, double max,
                                             double* kept) {
  return sums_of(z, n, max, kept);
}

}  // namespace

ExactRow exact_row(std::span<const float> logits) {
  Exponentials none;
  return exact_row(logits, none);
}

ExactRow exact_row(std::span<const float> logits, Exponentials& exponentials) {
  const auto n = static_cast<std::int64_t>(logits.size());
  const Extent extent = extent_of(logits.data(), n);
  ExactRow row;
  row.finite = extent.finite;
  if (!extent.valid || extent.finite == 0) return row;
  double* const kept = exponentials.values;
  const Sums sums = kept == nullptr ? exponential_sums(logits.data(), n, extent.max)
                                    : kept_exponential_sums(logits.data(), n, extent.max, kept);
  exponentials.sum = sums.e;
  const double log_sum = base::log_f64(sums.e);
  row.lse = extent.max + log_sum;
  row.entropy = static_cast<float>(std::max(0.0, log_sum - sums.ed / sums.e));
  row.valid = true;
  return row;
}

}  // namespace dgap::statistics
