#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schemas/trace/trace.hpp"

namespace dgap::statistics {

/// Groups of steps that are resampled together: books, or sites when there are fewer than 20 books
/// (then `approximate`).
struct Clusters {
  std::vector<std::int32_t> of_step;  // [N]
  std::int32_t count = 0;
  bool approximate = false;
};
Clusters clusters(const schemas::TracePart& trace);

/// Percentile bootstrap over clusters of the mean of `values`: quantiles at the given levels.
/// Deterministic for a seed.
std::vector<double> bootstrap_mean(std::span<const double> values, const Clusters& clusters,
                                   int resamples, std::uint64_t seed,
                                   std::span<const double> levels);

/// Quantile of sorted values, linear between neighbours; NaN of none.
double quantile(std::span<const double> sorted, double level);

/// Area under the ROC curve, ties counted half; NaN when one class is missing.
double auc(std::span<const float> scores, std::span<const std::uint8_t> labels);

}  // namespace dgap::statistics
