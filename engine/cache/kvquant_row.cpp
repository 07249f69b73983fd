#include "engine/cache/kvquant_row.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/half.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {
namespace {

/// Marks the first `count` of the unmarked channels in an order.
template <class Before>
void mark_first(int count, const Before& before, std::vector<std::uint16_t>& channels,
                std::vector<std::uint8_t>& marks) {
  if (count == 0) return;
  std::nth_element(channels.begin(), channels.begin() + (count - 1), channels.end(), before);
  for (int i = 0; i < count; ++i) marks[channels[static_cast<std::size_t>(i)]] = 1;
  channels.erase(channels.begin(), channels.begin() + count);
}

}  // namespace

int outliers_per_end(double share, int width) {
  return static_cast<int>(std::ceil(share / 2 * (width - 1)));
}

RowRange mark_outliers(std::span<const float> x, int per_end,
                       std::vector<std::uint8_t>& is_outlier) {
  thread_local std::vector<std::uint16_t> channels;
  channels.resize(x.size());
  std::iota(channels.begin(), channels.end(), std::uint16_t{0});
  is_outlier.assign(x.size(), 0);
  using Channel = std::uint16_t;
  const auto larger = [&](Channel a, Channel b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
  const auto smaller = [&](Channel a, Channel b) { return x[a] < x[b] || (x[a] == x[b] && a < b); };
  mark_first(per_end, larger, channels, is_outlier);
  mark_first(per_end, smaller, channels, is_outlier);
  float low = x[channels.front()], high = low;
  for (const Channel c : channels) low = std::min(low, x[c]), high = std::max(high, x[c]);
  const auto rounded = [](float value) { return base::from_half(to_half_saturated(value)); };
  return {rounded((high + low) / 2), rounded((high - low) / 2)};
}

float finite_or_zero(float x) { return std::fabs(x) < 65520.0f ? x : 0.0f; }

}  // namespace dgap::engine
