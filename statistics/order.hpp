#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/multiversion.hpp"

/// The one order of tokens: logit descending, id ascending. Private to statistics/.
namespace dgap::statistics {

/// A key that is smaller the larger the logit is. -0 and +0 are equal logits and have one key;
/// -inf comes last.
DGAP_INLINE std::uint32_t descending_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);  // -0 + 0 = +0
  return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

/// Key and id in one integer: smaller is earlier in the order, and equal only for the same token.
DGAP_INLINE std::uint64_t order_key(float logit, std::int32_t id) {
  return std::uint64_t{descending_key(logit)} << 32 | static_cast<std::uint32_t>(id);
}

/// The id in an order_key.
inline std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key & 0xffffffffu);
}

/// The order of one row, found only as deep as it is asked for. Tokens are dealt into buckets by
/// their distance from the highest logit, so that all of a bucket come before all of the next; the
/// tokens of the first buckets are gathered when one of them is wanted, and a bucket is sorted or
/// searched by itself. Of a row of 49,152 logits a trace needs the place of a few hundred. Holds 10
/// bytes per logit.
class RowOrder {
 public:
  static constexpr std::int32_t kBuckets = 4096;

  /// At least one logit, no NaN or +inf among them. Allocates only for a longer row than before.
  void assign(std::span<const float> logits);

  std::int32_t bucket(std::int32_t id) const { return bucket_[static_cast<std::size_t>(id)]; }
  /// Number of tokens before this bucket; `bucket` may be kBuckets.
  std::int64_t first(std::int32_t bucket) const { return first_[static_cast<std::size_t>(bucket)]; }
  /// order_keys of the bucket's tokens, by id unless sorted.
  std::span<const std::uint64_t> keys(std::int32_t bucket);
  std::span<const std::uint64_t> sorted_keys(std::int32_t bucket);
  /// 0-based place of a token in the order.
  std::int64_t rank(std::int32_t id);
  /// Gathers all buckets that these tokens need at once: saves passes over the row.
  void reach_all(std::span<const std::int32_t> ids);
  /// Gathers all buckets up to this one.
  void reach(std::int32_t bucket);

 private:
  std::span<const float> logits_;
  std::vector<std::uint16_t> bucket_;  // [width]
  std::vector<std::uint64_t> keys_;    // [width], bucket after bucket
  std::vector<std::uint32_t> first_;   // [kBuckets + 1]
  std::vector<std::uint32_t> next_;    // [kBuckets], where the bucket's next key goes
  std::vector<std::uint8_t> sorted_;   // [kBuckets]
  std::int32_t gathered_ = 0;          // buckets whose keys are in place
};

}  // namespace dgap::statistics
