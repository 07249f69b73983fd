#include "runtime/row_sums.hpp"

#include <algorithm>
#include <limits>

#include "base/exp.hpp"
#include "base/multiversion.hpp"

namespace dgap::runtime {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr int kSums = 64, kTerms = 16;  // lanes, and how many each adds up in f32 at a time
constexpr int kBlock = kSums * kTerms;

template <int lanes>
DGAP_INLINE ExponentialSums folded(double* e, double* ed) {
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) e[l] += e[l + width], ed[l] += ed[l + width];
  }
  return {e[0], ed[0]};
}

struct TailLanes {
  double e[kSums] = {}, ed[kSums] = {};

  template <class T>
  DGAP_INLINE void add(const T* z, float top, float bound) {
    float block_e[kSums] = {}, block_ed[kSums] = {};
    for (int i = 0; i < kTerms; ++i, z += kSums) {
      for (int l = 0; l < kSums; ++l) {
        const float x = value(z[l]), d = x - top;
        // What is below, or not in the tail, counts 1e-38. NaN stays.
        const float bounded = (x >= bound || d < -87.0f) ? -87.0f : d;
        const float p = base::exp_normal_f32<true>(bounded);
        block_e[l] += p;
        block_ed[l] = base::multiply_add(p, bounded, block_ed[l]);
      }
    }
    for (int l = 0; l < kSums; ++l) {
      e[l] += static_cast<double>(block_e[l]);
      ed[l] += static_cast<double>(block_ed[l]);
    }
  }
};

template <class T>
DGAP_INLINE ExponentialSums tail_of(const T* z, std::int64_t n, float top, float bound) {
  TailLanes lanes;
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) lanes.add(z + i, top, bound);
  if (i < n) {
    float rest[kBlock];
    for (int l = 0; l < kBlock; ++l) rest[l] = l < n - i ? value(z[i + l]) : kMasked;
    lanes.add(rest, top, bound);
  }
  return folded<kSums>(lanes.e, lanes.ed);
}

DGAP_MULTIVERSION ExponentialSums tail(const float* z, std::int64_t n, float top, float bound) {
  return tail_of(z, n, top, bound);
}
DGAP_MULTIVERSION ExponentialSums tail(const std::uint16_t* z, std::int64_t n, float top,
                                       float bound) {
  return tail_of(z, n, top, bound);
}

/// kLanes logits at a time; the last ones may be -inf, which counts 0.
DGAP_MULTIVERSION ExponentialSums head(const float* z, std::int64_t n, float top) {
  constexpr int kLanes = base::kLanes;
  double e[kLanes] = {}, ed[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const double d = static_cast<double>(z[i + l]) - static_cast<double>(top);
      const double bounded = d < -708.0 ? -708.0 : d;  // 3e-308
      const double p = base::exp_normal_f64(bounded);
      e[l] += p;
      ed[l] += p * bounded;
    }
  }
  return folded<kLanes>(e, ed);
}

}  // namespace

ExponentialSums tail_sums(const Row& logits, float top, float bound) {
  return logits.visit([&](const auto* z) { return tail(z, logits.size(), top, bound); });
}

void HeadSums::flush() {
  const std::int64_t padded = base::padded_to_lanes(count_);
  std::fill(logits_ + count_, logits_ + padded, kMasked);
  const ExponentialSums part = head(logits_, padded, top_);
  sums_.e += part.e, sums_.ed += part.ed;
  count_ = 0;
}

ExponentialSums HeadSums::with(const ExponentialSums& more) {
  flush();
  return {more.e + sums_.e, more.ed + sums_.ed};
}

}  // namespace dgap::runtime
