#include "statistics/order.hpp"

#include <array>

namespace dgap::statistics {
namespace {

constexpr int kDigitBits = 11;
constexpr int kPasses = 3;  // 11 + 11 + 10 bits
constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
using Histogram = std::array<std::uint32_t, kBuckets>;

std::size_t digit(std::uint32_t key, int pass) {
  return (key >> (kDigitBits * pass)) & (kBuckets - 1);
}

/// Counts to first positions.
void accumulate(Histogram& histogram) {
  std::uint32_t sum = 0;
  for (std::uint32_t& count : histogram) {
    const std::uint32_t here = count;
    count = sum;
    sum += here;
  }
}

}  // namespace

void sort_row(std::span<const float> logits, std::uint64_t* scratch) {
  // Least significant digit first: every pass is stable, so equal logits keep their ids ascending.
  std::array<Histogram, kPasses> first{};
  for (const float z : logits) {
    const std::uint32_t key = descending_key(z);
    for (int pass = 0; pass < kPasses; ++pass) ++first[pass][digit(key, pass)];
  }
  for (Histogram& histogram : first) accumulate(histogram);

  const std::size_t count = logits.size();
  std::uint64_t* const a = scratch;
  std::uint64_t* const b = scratch + count;
  const auto place = [&](std::uint64_t entry, int pass, std::uint64_t* to) {
    to[first[pass][digit(static_cast<std::uint32_t>(entry >> 32), pass)]++] = entry;
  };
  for (std::size_t i = 0; i < count; ++i) {
    place(order_key(logits[i], static_cast<std::int32_t>(i)), 0, a);
  }
  for (std::size_t i = 0; i < count; ++i) place(a[i], 1, b);
  for (std::size_t i = 0; i < count; ++i) place(b[i], 2, a);
}

}  // namespace dgap::statistics
