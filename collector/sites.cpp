#include "collector/sites.hpp"

#include <algorithm>

namespace dgap::collector {

std::vector<std::int64_t> site_starts(std::int64_t tokens, std::int64_t needed, int front_matter,
                                      int sites, int steps) {
  const std::int64_t last = tokens - needed;
  if (last < 0) return {};
  const std::int64_t first = front_matter <= last ? front_matter : 0;
  const std::int64_t room = last - first;
  const std::int64_t count = std::clamp<std::int64_t>(room / steps, 1, sites);
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < count; ++i)
    starts.push_back(first + (2 * i + 1) * room / (2 * count));
  return starts;
}

std::vector<std::vector<int>> share_passes(std::span<const int> contexts, int steps) {
  std::vector<int> sorted(contexts.begin(), contexts.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::vector<int>> passes;
  for (const int context : sorted) {
    const auto fits = std::find_if(passes.begin(), passes.end(), [&](const std::vector<int>& p) {
      return p.back() + steps <= context;
    });
    (fits == passes.end() ? passes.emplace_back() : *fits).push_back(context);
  }
  return passes;
}

}  // namespace dgap::collector
