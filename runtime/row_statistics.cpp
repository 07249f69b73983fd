#include <algorithm>
#include <limits>

#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"
#include "runtime/window.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// First pass, per lane: maximum, number of finite entries, whether a NaN or +inf was seen.
struct ExtentLanes {
  float max[kLanes];
  std::int32_t finite[kLanes] = {};  // at most n / kLanes
  std::int32_t bad[kLanes] = {};

  DGAP_INLINE ExtentLanes() {
    for (int j = 0; j < kLanes; ++j) max[j] = -kInfinity;
  }
  DGAP_INLINE void add(const float* x) {
    for (int j = 0; j < kLanes; ++j) {
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

  DGAP_INLINE void add(const float* x, double max) {
    for (int j = 0; j < kLanes; ++j) {
      const double d = static_cast<double>(x[j]) - max;
      // exp(-708) = 3e-308 for all that is lower, -inf among it: nothing beside the maximum's 1.
      const double bounded = d < -708.0 ? -708.0 : d;
      const double p = base::exp_normal_f64(bounded);
      e[j] += p;
      ed[j] += p * bounded;
    }
  }
  DGAP_INLINE void fold() {
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) e[j] += e[j + width], ed[j] += ed[j + width];
    }
  }
};

/// The last, partial block of a row, filled up with -inf, which counts nothing anywhere.
struct Tail {
  float lanes[kLanes];
  DGAP_INLINE Tail(const float* from, std::int64_t left) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = j < left ? from[j] : -kInfinity;
  }
};

struct Extent {
  float max = -kInfinity;
  std::int64_t finite = 0;
  bool valid = true;
};

DGAP_MULTIVERSION Extent extent_of(const float* z, std::int64_t n) {
  ExtentLanes lanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes.add(z + i);
  if (i < n) lanes.add(Tail(z + i, n - i).lanes);
  Extent extent;
  for (int j = 0; j < kLanes; ++j) {
    extent.max = std::max(extent.max, lanes.max[j]);
    extent.finite += lanes.finite[j];
    extent.valid = extent.valid && lanes.bad[j] == 0;
  }
  return extent;
}

struct Sums {
  double e = 0.0, ed = 0.0;
};

DGAP_MULTIVERSION Sums exponential_sums(const float* z, std::int64_t n, double max) {
  SumLanes lanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes.add(z + i, max);
  if (i < n) lanes.add(Tail(z + i, n - i).lanes, max);
  lanes.fold();
  return {lanes.e[0], lanes.ed[0]};
}

}  // namespace

RowStatistics row_statistics(std::span<const float> logits) {
  const auto n = static_cast<std::int64_t>(logits.size());
  const Extent extent = extent_of(logits.data(), n);
  RowStatistics row;
  row.finite = extent.finite;
  if (!extent.valid || extent.finite == 0) return row;
  const Sums sums = exponential_sums(logits.data(), n, extent.max);
  const double log_sum = base::log_f64(sums.e);
  row.lse = extent.max + log_sum;
  row.entropy = static_cast<float>(std::max(0.0, log_sum - sums.ed / sums.e));
  row.valid = true;
  return row;
}

}  // namespace dgap::runtime
