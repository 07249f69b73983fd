#include "runtime/row_columns.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/multiversion.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;
constexpr int kColumns = RowColumns::kColumns, kBlock = RowColumns::kBlock;
constexpr float kMasked = -std::numeric_limits<float>::infinity();
static_assert(kColumns % kLanes == 0);

/// Unsigned numbers in the order of the floats; -0 equals +0.
DGAP_INLINE std::uint32_t ordered(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
DGAP_INLINE float from_ordered(std::uint32_t x) {
  return std::bit_cast<float>((x >> 31) != 0 ? x ^ 0x80000000u : ~x);
}

std::uint64_t key_of(float logit, std::int64_t id) {
  return std::uint64_t{ordered(logit)} << 32 |
         static_cast<std::uint32_t>(~static_cast<std::uint32_t>(id));
}

DGAP_INLINE float larger(float x, float than) { return x > than ? x : than; }

/// The maxima of one block's columns; `top` [kColumns] keeps the largest so far.
template <class T>
DGAP_INLINE void maxima_of_block(const T* z, float* maxima, float* top) {
  float most[kColumns];
  for (int l = 0; l < kColumns; ++l) most[l] = larger(value(z[l]), kMasked);
  for (int i = 1; i < RowColumns::kLength; ++i) {
    for (int l = 0; l < kColumns; ++l) most[l] = larger(value(z[i * kColumns + l]), most[l]);
  }
  for (int l = 0; l < kColumns; ++l) {
    maxima[l] = most[l];
    top[l] = larger(most[l], top[l]);
  }
}

template <class T>
DGAP_INLINE void maxima_of_all(const T* z, std::int64_t n, float* maxima, float* top) {
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock, maxima += kColumns) maxima_of_block(z + i, maxima, top);
  if (i == n) return;
  float rest[kBlock];
  for (int l = 0; l < kBlock; ++l) rest[l] = l < n - i ? value(z[i + l]) : kMasked;
  maxima_of_block(rest, maxima, top);
}

DGAP_MULTIVERSION void maxima_of_row(const float* z, std::int64_t n, float* maxima, float* top) {
  maxima_of_all(z, n, maxima, top);
}
DGAP_MULTIVERSION void maxima_of_row(const std::uint16_t* z, std::int64_t n, float* maxima,
                                     float* top) {
  maxima_of_all(z, n, maxima, top);
}

/// A multiple of kColumns; 0 where a row has so few columns that all of it is collected.
std::int64_t group_count(std::int64_t columns, std::int64_t k) {
  const std::int64_t groups =
      std::max<std::int64_t>(256, (4 * k + kColumns - 1) / kColumns * kColumns);
  return groups * 2 <= columns ? groups : 0;
}

/// largest[g] = max of maxima[g], maxima[g + groups], ...
DGAP_MULTIVERSION void group_maxima(const float* maxima, std::int64_t columns, std::int64_t groups,
                                    float* largest) {
  for (std::int64_t g = 0; g < groups; ++g) largest[g] = maxima[g];
  for (std::int64_t i = groups; i < columns; i += groups) {
    const std::int64_t n = std::min(groups, columns - i);
    for (std::int64_t g = 0; g < n; ++g) largest[g] = larger(maxima[i + g], largest[g]);
  }
}

/// How many of x reach the bound; n is a multiple of kLanes.
DGAP_MULTIVERSION std::int64_t count_from(const float* x, std::int64_t n, float bound) {
  std::int32_t counts[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) counts[l] += x[i + l] >= bound ? 1 : 0;
  }
  std::int64_t count = 0;
  for (const std::int32_t c : counts) count += c;
  return count;
}

DGAP_MULTIVERSION void mark(const float* maxima, std::int64_t n, float bound, std::uint8_t* hits) {
  for (std::int64_t i = 0; i < n; ++i) hits[i] = maxima[i] >= bound ? 1 : 0;
}

}  // namespace

std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
}
float logit_of(std::uint64_t key) { return from_ordered(static_cast<std::uint32_t>(key >> 32)); }
float next_above(std::uint64_t key) {
  return from_ordered(static_cast<std::uint32_t>(key >> 32) + 1);
}

RowColumns::RowColumns(std::int64_t width)
    : maxima_(static_cast<std::size_t>((width + kBlock - 1) / kBlock * kColumns)),
      hits_(maxima_.size()),
      largest_(maxima_.size() / 2) {}

float RowColumns::assign(const Row& logits) {
  logits_ = logits;
  float top[kColumns];
  std::fill_n(top, kColumns, kMasked);
  logits.visit([&](const auto* z) { maxima_of_row(z, logits.size(), maxima_.data(), top); });
  return *std::max_element(top, top + kColumns);
}

/// Of the largest logit of every group of columns, one that at least k reach, found by halving the
/// range of all floats until no more than a quarter too many do.
float RowColumns::bound(std::int64_t k) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();  // -inf never enters
  const std::int64_t groups = group_count(std::ssize(maxima_), k);
  if (groups == 0) return kLowest;
  group_maxima(maxima_.data(), std::ssize(maxima_), groups, largest_.data());
  std::uint32_t reached = ordered(kLowest), missed = ordered(std::numeric_limits<float>::max()) + 1;
  while (missed - reached > 1) {
    const std::uint32_t middle = reached + (missed - reached) / 2;
    const std::int64_t count = count_from(largest_.data(), groups, from_ordered(middle));
    (count >= k ? reached : missed) = middle;
    if (count >= k && count <= k + k / 4) break;
  }
  return from_ordered(reached);
}

void RowColumns::mark_hits(float bound) {
  mark(maxima_.data(), std::ssize(maxima_), bound, hits_.data());
}

std::int64_t RowColumns::next_word(std::int64_t from) const {
  std::uint64_t word = 0;
  for (; from < std::ssize(hits_); from += kWord) {
    std::memcpy(&word, hits_.data() + from, kWord);
    if (word != 0) break;
  }
  return from;
}

/// Keys of the logits of one column that reach the bound; there is room for all and one more.
std::int64_t RowColumns::collect_column(std::int64_t column, float bound,
                                        std::uint64_t* keys) const {
  const std::int64_t block = column / kColumns,
                     end = std::min(logits_.size(), (block + 1) * kBlock);
  std::int64_t count = 0;
  for (std::int64_t id = block * kBlock + column % kColumns; id < end; id += kColumns) {
    const float logit = logits_[id];  // without a branch, which would be mispredicted
    keys[count] = key_of(logit, id);
    count += logit >= bound ? 1 : 0;
  }
  return count;
}

}  // namespace dgap::runtime
