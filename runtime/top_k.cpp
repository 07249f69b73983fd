#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/multiversion.hpp"
#include "runtime/window.hpp"

/// Exact top K in two passes. The first splits the row into interleaved groups and takes each one's
/// maximum: the k-th largest of these is a bound that at least k logits reach, and few more do. The
/// second collects what reaches the bound, in a buffer that is cut back to the best k whenever it
/// is full, so that rows made against the first pass (ties, adversaries) cost time but not memory.
namespace dgap::runtime {
namespace {

constexpr std::int64_t kBlock = 32;  // logits that the second pass tests at once

/// Unsigned keys whose descending order is (logit descending, id ascending). -0 equals +0.
DGAP_INLINE std::uint64_t key_of(float logit, std::int64_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
  const std::uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return std::uint64_t{ordered} << 32 | static_cast<std::uint32_t>(~static_cast<std::uint32_t>(id));
}

/// The smallest float above the one in `key`; NaN, which no logit reaches, above +inf.
DGAP_INLINE float next_above(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32) + 1;
  return std::bit_cast<float>((ordered >> 31) != 0 ? ordered ^ 0x80000000u : ~ordered);
}

std::int64_t group_count(std::int64_t width, std::int64_t k) {
  const std::int64_t groups = std::max<std::int64_t>(256, (4 * k + 63) / 64 * 64);
  return groups * 2 <= width ? groups : 0;  // 0: short rows are collected whole
}

std::int64_t buffer_size(std::int64_t width, std::int64_t k) {
  return std::min(width, 2 * k + 1024) + kBlock;
}

/// maximum[g] = max of logits[g], logits[g + groups], ...; NaN is never larger.
DGAP_MULTIVERSION void group_maxima(const float* logits, std::int64_t width, std::int64_t groups,
                                    float* maximum) {
  for (std::int64_t g = 0; g < groups; ++g) maximum[g] = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < width; i += groups) {
    const std::int64_t n = std::min(groups, width - i);
    for (std::int64_t g = 0; g < n; ++g) {
      maximum[g] = logits[i + g] > maximum[g] ? logits[i + g] : maximum[g];
    }
  }
}

/// Index of the first block at or after `from` that holds a logit >= bound; past `width` if none.
DGAP_MULTIVERSION std::int64_t next_block(const float* logits, std::int64_t from,
                                          std::int64_t width, float bound) {
  for (; from + kBlock <= width; from += kBlock) {
    std::int32_t hit = 0;
    for (std::int64_t j = 0; j < kBlock; ++j) hit |= logits[from + j] >= bound ? 1 : 0;
    if (hit != 0) return from;
  }
  return from;
}

}  // namespace

std::size_t top_k_scratch(std::int64_t width, std::int64_t k) {
  return static_cast<std::size_t>(buffer_size(width, k)) * sizeof(std::uint64_t) +
         static_cast<std::size_t>(group_count(width, k)) * sizeof(float);
}

std::int64_t top_k(std::span<const float> logits, std::int64_t k, std::int32_t* ids, float* values,
                   void* scratch) {
  const auto width = static_cast<std::int64_t>(logits.size());
  k = std::min(k, width);
  if (k <= 0) return 0;
  const std::int64_t size = buffer_size(width, k);
  auto* const keys = static_cast<std::uint64_t*>(scratch);

  float bound = std::numeric_limits<float>::lowest();  // -inf never enters
  if (const std::int64_t groups = group_count(width, k); groups > 0) {
    auto* const maximum = reinterpret_cast<float*>(keys + size);
    group_maxima(logits.data(), width, groups, maximum);
    std::nth_element(maximum, maximum + (k - 1), maximum + groups, std::greater<>());
    bound = std::max(bound, maximum[k - 1]);
  }
  std::int64_t count = 0;
  const auto keep_best = [&] {
    if (count <= k) return;
    std::nth_element(keys, keys + (k - 1), keys + count, std::greater<>());
    count = k;
  };
  for (std::int64_t i = next_block(logits.data(), 0, width, bound); i < width;
       i = next_block(logits.data(), i + kBlock, width, bound)) {
    for (std::int64_t j = i; j < std::min(i + kBlock, width); ++j) {
      if (logits[j] >= bound) keys[count++] = key_of(logits[j], j);
    }
    if (count + kBlock <= size) continue;
    keep_best();
    if (count == k) bound = next_above(keys[k - 1]);  // later ids lose ties
  }
  keep_best();
  std::sort(keys, keys + count, std::greater<>());
  for (std::int64_t r = 0; r < count; ++r) {
    ids[r] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys[r]));
    values[r] = logits[ids[r]];
  }
  return count;
}

}  // namespace dgap::runtime
