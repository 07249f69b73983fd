#include "statistics/resampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/random.hpp"

namespace dgap::statistics {
namespace {

constexpr std::int32_t kEnoughBooks = 20;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Clusters clusters(const schemas::TracePart& trace) {
  std::map<std::pair<std::string_view, std::string_view>, std::int32_t> books;
  std::vector<std::int32_t> book_of_unit;
  for (const schemas::TraceUnit& unit : trace.units) {
    const auto next = static_cast<std::int32_t>(books.size());
    book_of_unit.push_back(books.try_emplace({unit.source, unit.book}, next).first->second);
  }
  Clusters result;
  if (static_cast<std::int32_t>(books.size()) < kEnoughBooks) {
    result.of_step = trace.step_unit;
    result.count = static_cast<std::int32_t>(trace.units.size());
    result.approximate = true;
    return result;
  }
  result.count = static_cast<std::int32_t>(books.size());
  result.of_step.reserve(trace.step_unit.size());
  for (const std::int32_t unit : trace.step_unit) result.of_step.push_back(book_of_unit[unit]);
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
  base::Random random(seed, "bootstrap");
  std::vector<double> means;
  for (int resample = 0; resample < resamples && !values.empty(); ++resample) {
    double sum = 0.0, count = 0.0;
    for (std::int32_t draw = 0; draw < clusters.count; ++draw) {
      const std::uint64_t cluster = random.below(clusters.count);
      sum += sums[cluster];
      count += counts[cluster];
    }
    if (count > 0.0)
      means.push_back(sum / count);  // clusters without values can be all that is drawn
  }
  std::sort(means.begin(), means.end());
  std::vector<double> result;
  for (const double level : levels) result.push_back(quantile(means, level));
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
