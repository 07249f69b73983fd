#include "statistics/order.hpp"

#include <algorithm>

namespace dgap::statistics {
namespace {

/// What lies more than 32 nats below the highest logit shares the last bucket: exp(-32) is nothing
/// beside 1.
constexpr float kBucketsPerNat = 128.0f;
/// Buckets of more tokens are sorted once rather than searched for every token.
constexpr std::size_t kSearched = 64;
/// The first pass over the row gathers so many tokens, each further one twice as many as the one
/// before.
constexpr std::int64_t kGathered = 512;
constexpr std::int64_t kBlock = 16;

DGAP_MULTIVERSION float highest(const float* z, std::int64_t count) {
  constexpr int kMaxima = 64;  // more than the compiler unrolls into scalar code
  float maximum[kMaxima];
  for (int j = 0; j < kMaxima; ++j) maximum[j] = z[0];
  std::int64_t i = 0;
  for (; i + kMaxima <= count; i += kMaxima) {
    for (int j = 0; j < kMaxima; ++j) maximum[j] = z[i + j] > maximum[j] ? z[i + j] : maximum[j];
  }
  for (; i < count; ++i) maximum[0] = std::max(maximum[0], z[i]);
  return *std::max_element(maximum, maximum + kMaxima);
}

/// Buckets never fall as logits fall, whatever is rounded, so keys must be compared only within a
/// bucket.
DGAP_MULTIVERSION void deal(const float* z, std::int64_t count, float high, std::uint16_t* bucket) {
  constexpr float kLast = RowOrder::kBuckets - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const float at = (high - z[i]) * kBucketsPerNat;
    bucket[i] = static_cast<std::uint16_t>(
        static_cast<std::int32_t>(at < kLast ? at : kLast));  // also -inf
  }
}

/// Start of the first whole block at or after `from` with a token in the `range` buckets from
/// `begin`, or of the rest.
DGAP_MULTIVERSION std::int64_t next_block(const std::uint16_t* bucket, std::int64_t from,
                                          std::int64_t count, std::uint16_t begin,
                                          std::uint16_t range) {
  for (; from + kBlock <= count; from += kBlock) {
    std::uint16_t hit = 0;
#pragma GCC unroll 1  // else it is unrolled into scalar code
    for (std::int64_t j = 0; j < kBlock; ++j) {
      hit |= static_cast<std::uint16_t>(bucket[from + j] - begin) < range ? 1 : 0;
    }
    if (hit != 0) return from;
  }
  return from;
}

}  // namespace

void RowOrder::assign(std::span<const float> logits) {
  const std::size_t count = logits.size();
  logits_ = logits;
  bucket_.resize(count);
  keys_.resize(count);
  sorted_.assign(kBuckets, 0);
  first_.assign(kBuckets + 1, 0);
  gathered_ = 0;
  const auto width = static_cast<std::int64_t>(count);
  deal(logits.data(), width, highest(logits.data(), width), bucket_.data());
  std::uint32_t* const sizes = first_.data() + 1;
  for (std::size_t i = 0; i < count; ++i) ++sizes[bucket_[i]];
  for (std::int32_t b = 1; b < kBuckets; ++b) sizes[b] += sizes[b - 1];
  next_.assign(first_.begin(), first_.end() - 1);
}

void RowOrder::reach(std::int32_t bucket) {
  if (bucket < gathered_) return;
  const std::int64_t wanted = std::max(2 * first(gathered_), kGathered);
  std::int32_t end = bucket + 1;
  while (end < kBuckets && first(end) < wanted) ++end;
  const auto begin = static_cast<std::uint16_t>(gathered_),
             range = static_cast<std::uint16_t>(end - gathered_);
  const auto width = static_cast<std::int64_t>(bucket_.size());
  const auto after = [&](std::int64_t from) {
    return next_block(bucket_.data(), from, width, begin, range);
  };
  for (std::int64_t i = after(0); i < width; i = after(i + kBlock)) {
    for (std::int64_t j = i; j < std::min(i + kBlock, width); ++j) {
      const std::uint16_t b = bucket_[static_cast<std::size_t>(j)];
      if (static_cast<std::uint16_t>(b - begin) >= range) continue;
      keys_[next_[b]++] =
          order_key(logits_[static_cast<std::size_t>(j)], static_cast<std::int32_t>(j));
    }
  }
  gathered_ = end;
}

void RowOrder::reach_all(std::span<const std::int32_t> ids) {
  std::int32_t deepest = 0;
  for (const std::int32_t id : ids) deepest = std::max(deepest, bucket(id));
  reach(deepest);
}

std::span<const std::uint64_t> RowOrder::keys(std::int32_t bucket) {
  reach(bucket);
  const auto begin = static_cast<std::size_t>(first(bucket)),
             end = static_cast<std::size_t>(first(bucket + 1));
  return std::span(keys_).subspan(begin, end - begin);
}

std::span<const std::uint64_t> RowOrder::sorted_keys(std::int32_t bucket) {
  reach(bucket);
  std::uint8_t& sorted = sorted_[static_cast<std::size_t>(bucket)];
  if (sorted == 0) std::sort(keys_.begin() + first(bucket), keys_.begin() + first(bucket + 1));
  sorted = 1;
  return keys(bucket);
}

std::int64_t RowOrder::rank(std::int32_t id) {
  const std::int32_t b = bucket(id);
  const std::uint64_t key = order_key(logits_[static_cast<std::size_t>(id)], id);
  const auto unsorted = keys(b);
  if (unsorted.size() > kSearched) {
    const auto sorted = sorted_keys(b);
    return first(b) + (std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin());
  }
  std::int64_t before = first(b);
  for (const std::uint64_t other : unsorted) before += other < key ? 1 : 0;
  return before;
}

}  // namespace dgap::statistics
