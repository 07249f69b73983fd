#include "statistics/order.hpp"

#include <array>
#include <utility>

#include "base/multiversion.hpp"

namespace dgap::statistics {
namespace {

constexpr int kPasses = 4;  // digits of 8 bits: 256 streams of writes stay in the first cache
using Histogram = std::array<std::uint32_t, 256>;

std::uint32_t digit(std::uint64_t key, int pass) {
  return static_cast<std::uint32_t>(key >> (32 + 8 * pass)) & 0xffu;
}

DGAP_MULTIVERSION void make_keys(const float* logits, std::int64_t count, std::uint64_t* keys) {
  for (std::int64_t i = 0; i < count; ++i) {
    keys[i] = order_key(logits[i], static_cast<std::int32_t>(i));
  }
}

/// First positions of every digit's keys.
std::array<Histogram, kPasses> positions(std::span<const std::uint64_t> keys) {
  std::array<Histogram, kPasses> result{};
  for (const std::uint64_t key : keys) {
    for (int pass = 0; pass < kPasses; ++pass) ++result[pass][digit(key, pass)];
  }
  for (Histogram& histogram : result) {
    std::uint32_t sum = 0;
    for (std::uint32_t& count : histogram) sum += std::exchange(count, sum);
  }
  return result;
}

}  // namespace

void sort_row(std::span<const float> logits, std::uint64_t* scratch) {
  // Least significant digit first: every pass is stable, so equal logits keep their ids ascending.
  const std::size_t count = logits.size();
  std::uint64_t *from = scratch, *to = scratch + count;
  make_keys(logits.data(), static_cast<std::int64_t>(count), from);
  auto next = positions({from, count});
  for (int pass = 0; pass < kPasses; ++pass, std::swap(from, to)) {
    Histogram& at = next[pass];
    for (std::size_t i = 0; i < count; ++i) to[at[digit(from[i], pass)]++] = from[i];
  }
}

}  // namespace dgap::statistics
