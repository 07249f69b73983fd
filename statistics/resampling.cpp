#include "statistics/resampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include "base/random.hpp"

namespace dgap::statistics {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kColumns = 64;  // quantities that are resampled together

/// How often each cluster is drawn: [resamples, clusters].
std::vector<std::uint32_t> draws(std::size_t clusters, int resamples, std::uint64_t seed) {
  base::Random random(seed, "bootstrap");
  std::vector<std::uint32_t> drawn(clusters * static_cast<std::size_t>(resamples));
  for (std::size_t first = 0; first < drawn.size(); first += clusters) {
    for (std::size_t i = 0; i < clusters; ++i) ++drawn[first + random.below(clusters)];
  }
  return drawn;
}

/// Sums of one resample, of `sums.size()` quantities from column `first` of [clusters, width].
double resample(std::span<const std::uint32_t> drawn, std::span<const double> all,
                std::size_t width, std::size_t first, std::span<const double> counts,
                std::span<double> sums) {
  std::fill(sums.begin(), sums.end(), 0.0);
  double count = 0.0;
  for (std::size_t c = 0; c < drawn.size(); ++c) {
    if (drawn[c] == 0) continue;
    const double times = drawn[c];
    const double* const row = all.data() + c * width + first;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += times * row[i];
    count += times * counts[c];
  }
  return count;
}

}  // namespace

std::int32_t ClusterNumbers::of_next(const schemas::TraceUnit& unit) {
  if (approximate_) return count_++;
  const auto [book, fresh] = books_.try_emplace({unit.source, unit.book}, count_);
  count_ += fresh ? 1 : 0;
  return book->second;
}

Clusters clusters(const schemas::TracePart& trace) {
  std::set<std::pair<std::string_view, std::string_view>> books;
  for (const schemas::TraceUnit& unit : trace.units) books.emplace(unit.source, unit.book);
  ClusterNumbers numbers(static_cast<std::int64_t>(books.size()));
  std::vector<std::int32_t> of_unit;
  for (const schemas::TraceUnit& unit : trace.units) of_unit.push_back(numbers.of_next(unit));
  Clusters result;
  result.count = numbers.count();
  result.approximate = numbers.approximate();
  result.of_step.reserve(trace.step_unit.size());
  for (const std::int32_t unit : trace.step_unit) result.of_step.push_back(of_unit[unit]);
  return result;
}

std::vector<double> bootstrap_mean(std::span<const double> values, const Clusters& clusters,
                                   int resamples, std::uint64_t seed,
                                   std::span<const double> levels) {
  std::vector<double> sums(clusters.count), counts(clusters.count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[clusters.of_step[i]] += values[i];
    counts[clusters.of_step[i]] += 1.0;
  }
  if (values.empty()) return std::vector<double>(levels.size(), kNaN);
  return bootstrap_means(sums, counts, resamples, seed, levels);
}

std::vector<double> bootstrap_means(std::span<const double> sums, std::span<const double> counts,
                                    int resamples, std::uint64_t seed,
                                    std::span<const double> levels) {
  const std::size_t clusters = counts.size(), width = sums.size() / clusters;
  const std::vector<std::uint32_t> drawn = draws(clusters, resamples, seed);
  std::vector<double> result(levels.size() * width), columns(kColumns), means;
  for (std::size_t first = 0; first < width; first += kColumns) {
    const std::span<double> block(columns.data(), std::min(kColumns, width - first));
    means.clear();  // [resamples that drew a value, block]
    for (std::size_t r = 0; r < drawn.size(); r += clusters) {
      const double count =
          resample({drawn.data() + r, clusters}, sums, width, first, counts, block);
      if (count == 0.0) continue;  // clusters without values can be all that is drawn
      for (const double sum : block) means.push_back(sum / count);
    }
    std::vector<double> sorted(means.size() / block.size());
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (std::size_t r = 0; r < sorted.size(); ++r) sorted[r] = means[r * block.size() + i];
      std::sort(sorted.begin(), sorted.end());
      for (std::size_t l = 0; l < levels.size(); ++l) {
        result[l * width + first + i] = quantile(sorted, levels[l]);
      }
    }
  }
  return result;
}

double quantile(std::span<const double> sorted, double level) {
  if (sorted.empty()) return kNaN;
  const double at = std::clamp(level, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double auc(std::span<const float> scores, std::span<const std::uint8_t> labels) {
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); })) return kNaN;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] < scores[b]; });
  // Pairs (positive, negative) with the positive's score above, ties counted half.
  double won = 0.0, positives = 0.0, negatives = 0.0;
  for (std::size_t i = 0; i < order.size();) {
    double tied_positives = 0.0, tied_negatives = 0.0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      (labels[order[i]] ? tied_positives : tied_negatives) += 1.0;
    }
    won += tied_positives * (negatives + 0.5 * tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return positives > 0.0 && negatives > 0.0 ? won / (positives * negatives) : kNaN;
}

}  // namespace dgap::statistics
