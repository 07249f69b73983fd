#include "runtime/row_scan.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/log.hpp"
#include "base/multiversion.hpp"

namespace dgap::runtime {
namespace {

constexpr int kBlock = RowColumns::kBlock;
constexpr std::int64_t kHead = 64;          // logits, at least, whose exponentials are f64
constexpr std::int64_t kMostCounted = 512;  // keys that count_ranks orders

/// ranks[i] = how many keys are larger than keys[i]: for some hundreds of keys, vectors of
/// comparisons are done before a sort has recovered from its mispredicted branches.
DGAP_MULTIVERSION void count_ranks(const std::uint64_t* keys, std::int64_t n, std::int32_t* ranks) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t larger = 0;
    for (std::int64_t j = 0; j < n; ++j) larger += keys[j] > keys[i] ? 1 : 0;
    ranks[i] = static_cast<std::int32_t>(larger);
  }
}

}  // namespace

RowScan::RowScan(std::int64_t width, std::int64_t k)
    : k_(std::clamp<std::int64_t>(k, 0, width)),
      columns_(width),
      keys_(static_cast<std::size_t>(std::min(width, 2 * k_ + 1024) + kBlock + 1)),
      ranks_(keys_.size()) {}

RowStatistics RowScan::assign(const Row& logits) {
  kept_ = 0;
  const float top = columns_.assign(logits);
  if (!std::isfinite(top)) return {};
  const float bound = columns_.bound(kHead);
  const ExponentialSums tail = tail_sums(logits, top, bound);
  if (std::isnan(tail.ed)) return {};  // as any logit is
  const ExponentialSums sums = head_of(top, bound).with(tail);
  const double log_sum = base::log_f64(sums.e);
  return {static_cast<double>(top) + log_sum,
          static_cast<float>(std::max(0.0, log_sum - sums.ed / sums.e)), true};
}

/// Of the logits that reach the bound, by columns. The keys that they are found by, and those of
/// the k largest, are kept where there is room for all.
HeadSums RowScan::head_of(float top, float bound) {
  HeadSums head(top);
  std::uint64_t* const keys = keys_.data();
  bool room = true;
  const auto add = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (const float logit = logit_of(keys[i]); logit >= bound) head.add(logit);
    }
  };
  const float lower = k_ > kHead ? std::min(bound, columns_.bound(k_)) : bound;
  const std::int64_t count = columns_.collect(lower, keys, [&](std::int64_t so_far, float&) {
    if (so_far + kBlock < std::ssize(keys_)) return so_far;
    add(so_far);
    room = false;
    return std::int64_t{0};
  });
  add(count);
  kept_ = room ? count : 0;
  return head;
}

/// The keys of at least the k largest logits, or of all finite ones, in a buffer that is cut back
/// to the best k whenever it could overflow, so that rows made against the bound (ties,
/// adversaries) cost time but not memory.
std::int64_t RowScan::collect_largest() {
  std::uint64_t* const keys = keys_.data();
  return columns_.collect(columns_.bound(k_), keys, [&](std::int64_t count, float& bound) {
    if (count + kBlock < std::ssize(keys_)) return count;
    if (count > k_) {
      std::nth_element(keys, keys + (k_ - 1), keys + count, std::greater<>());
      bound = std::max(bound, next_above(keys[k_ - 1]));  // ids of later blocks lose ties
    }
    return std::min(count, k_);
  });
}

std::int64_t RowScan::top(std::int32_t* ids, float* values) {
  if (k_ == 0) return 0;
  std::uint64_t* const keys = keys_.data();
  std::int64_t count = kept_ >= k_ ? kept_ : collect_largest();
  if (count > kMostCounted) {
    std::sort(keys, keys + count, std::greater<>());
    std::iota(ranks_.begin(), ranks_.end(), 0);
    count = std::min(count, k_);
  } else {
    count_ranks(keys, count, ranks_.data());
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t rank = ranks_[i];
    if (rank >= k_) continue;
    ids[rank] = id_of(keys[i]);
    values[rank] = columns_.logit(ids[rank]);
  }
  return std::min(count, k_);
}

}  // namespace dgap::runtime
