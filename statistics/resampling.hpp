#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schemas/trace/trace.hpp"

namespace dgap::statistics {

/// Below this many books a bootstrap resamples sites, and finite-sample guarantees are refused.
inline constexpr std::int64_t kEnoughBooks = 20;

/// Numbers what is resampled together as units come one after another: books where there are at
/// least kEnoughBooks of them, else sites (then `approximate`).
class ClusterNumbers {
 public:
  explicit ClusterNumbers(std::int64_t books) : approximate_(books < kEnoughBooks) {}
  /// Of the next unit; a site is numbered anew by every call.
  std::int32_t of_next(const schemas::TraceUnit& unit);
  std::int32_t count() const { return count_; }
  bool approximate() const { return approximate_; }

 private:
  bool approximate_;
  std::int32_t count_ = 0;
  std::map<std::pair<std::string, std::string>, std::int32_t> books_;  // by source and book
};

/// Groups of steps that are resampled together (ClusterNumbers).
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

/// The same for many quantities at once, from one set of resamples: `sums` [clusters, width] over
/// `counts` [clusters] values each. Returns [levels, width].
std::vector<double> bootstrap_means(std::span<const double> sums, std::span<const double> counts,
                                    int resamples, std::uint64_t seed,
                                    std::span<const double> levels);

/// Quantile of sorted values, linear between neighbours; NaN of none.
double quantile(std::span<const double> sorted, double level);

/// Area under the ROC curve, ties counted half; NaN when one class is missing.
double auc(std::span<const float> scores, std::span<const std::uint8_t> labels);

}  // namespace dgap::statistics
