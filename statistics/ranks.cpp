#include <algorithm>
#include <cmath>
#include <limits>

#include "base/multiversion.hpp"
#include "statistics/order.hpp"
#include "statistics/reference_row.hpp"

namespace dgap::statistics {
namespace {

constexpr int kBuckets = 2048;
constexpr std::int64_t kBlock = 1024;
/// Above this share of the row a full sort is cheaper.
constexpr std::size_t kSortShare = 40;

/// Cuts the range of the asked logits into buckets. of() never falls as logits fall, whatever it
/// rounds, so equal buckets are the only place where keys must be compared.
struct Buckets {
  float high = 0.0f, scale = 0.0f;

  DGAP_INLINE std::int32_t of(float logit) const {
    constexpr float kLast = kBuckets - 1;
    float at = (high - logit) * scale;
    at = at < kLast ? at : kLast;  // also -inf and NaN
    return static_cast<std::int32_t>(at > 0.0f ? at : 0.0f);
  }
};

DGAP_MULTIVERSION void bucket_block(const float* logits, std::int64_t count, Buckets buckets,
                                    std::int32_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = buckets.of(logits[i]);
}

void ranks_by_sorting(std::span<const float> logits, std::span<const std::int32_t> ids,
                      std::int32_t* ranks, std::vector<std::uint64_t>& scratch) {
  const std::size_t width = logits.size();
  scratch.resize(std::max(scratch.size(), 2 * width));
  sort_row(logits, scratch.data());
  std::uint64_t* const rank_of = scratch.data() + width;
  for (std::size_t rank = 0; rank < width; ++rank) rank_of[id_of(scratch[rank])] = rank;
  for (std::size_t i = 0; i < ids.size(); ++i)
    ranks[i] = static_cast<std::int32_t>(rank_of[ids[i]]);
}

}  // namespace

void ranks_of(std::span<const float> logits, std::span<const std::int32_t> ids, std::int32_t* ranks,
              std::vector<std::uint64_t>& scratch) {
  if (ids.empty()) return;
  if (ids.size() > logits.size() / kSortShare) return ranks_by_sorting(logits, ids, ranks, scratch);

  // asked: the keys in order. before[i]: tokens that lie before asked[i] but not before asked[i -
  // 1]. begin[b]: the first asked key in bucket b or later.
  const std::size_t count = ids.size();
  scratch.resize(std::max(scratch.size(), 2 * count + 1 + kBuckets + 1));
  std::uint64_t* const asked = scratch.data();
  std::uint64_t* const before = asked + count;
  std::uint64_t* const begin = before + count + 1;
  float high = -std::numeric_limits<float>::infinity(), low = -high, low_finite = -high;
  for (std::size_t i = 0; i < count; ++i) {
    const float z = logits[ids[i]];
    asked[i] = order_key(z, ids[i]);
    high = std::max(high, z);
    low = std::min(low, z);
    if (std::isfinite(z)) low_finite = std::min(low_finite, z);
  }
  std::sort(asked, asked + count);
  std::fill_n(before, count + 1, 0);
  const float scale = (kBuckets - 1) / (high - low_finite);
  const Buckets buckets{high, std::isfinite(scale) && scale > 0.0f ? scale : 0.0f};
  std::size_t next = 0;
  for (int b = 0; b <= kBuckets; ++b) {
    while (next < count && buckets.of(logits[id_of(asked[next])]) < b) ++next;
    begin[b] = next;
  }

  std::int32_t bucket[kBlock];
  for (std::int64_t start = 0; start < static_cast<std::int64_t>(logits.size()); start += kBlock) {
    const float* const z = logits.data() + start;
    const auto length =
        std::min<std::int64_t>(kBlock, static_cast<std::int64_t>(logits.size()) - start);
    bucket_block(z, length, buckets, bucket);
    for (std::int64_t i = 0; i < length; ++i) {
      if (z[i] < low) continue;
      std::uint64_t slot = begin[bucket[i]];
      const std::uint64_t end = begin[bucket[i] + 1];
      if (slot != end) {
        const std::uint64_t key = order_key(z[i], static_cast<std::int32_t>(start + i));
        slot = std::upper_bound(asked + slot, asked + end, key) - asked;
      }
      ++before[slot];
    }
  }
  for (std::size_t i = 1; i < count; ++i) before[i] += before[i - 1];
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t key = order_key(logits[ids[i]], ids[i]);
    const auto at = std::lower_bound(asked, asked + count, key) - asked;
    ranks[i] = static_cast<std::int32_t>(before[at]);
  }
}

}  // namespace dgap::statistics
