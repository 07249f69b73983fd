#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/trace/trace.hpp"

namespace dgap::calibrator {

/// One book and site: its steps in a trace part, and what it is resampled with.
struct Site {
  std::span<const std::int64_t> steps;
  std::int32_t cluster = 0;
};

/// Mean coverage E c_t(K) of windows of every size and for every alpha of a list, in one pass over
/// the steps (arXiv:2607.16248 Eq. 4; inverting a row gives K_b for every rho_K). A candidate
/// counts for K above its quantised rank and for alpha above the reference's mass before it, so its
/// p_fp goes into one cell, and prefix sums do the rest. Memory: (cap + 1) numbers per alpha and
/// cluster, whatever the number of steps. The same bits for any thread count and any cut into parts
/// (sites are summed one by one, then in order).
class CoverageSurface {
 public:
  /// `alphas` ascending, at least one.
  CoverageSurface(std::vector<double> alphas, int cap);

  /// FailedError where the trace's candidate sets are smaller than C(alphas.back()).
  void add(const schemas::TracePart& trace, std::size_t precision, std::span<const Site> sites);

  const std::vector<double>& alphas() const { return alphas_; }
  int cap() const { return cap_; }
  /// E c_t(K) for K = 1 .. cap, and behind them E[mass of C_t], what no K can exceed. NaN before
  /// the first step.
  std::vector<double> coverage(std::size_t alpha) const;
  /// One-sided lower bounds of the same, each at level `confidence` for itself, from one set of
  /// resamples of the clusters. They ascend with K, as the coverage of every resample does.
  std::vector<double> lower(std::size_t alpha, double confidence, int resamples,
                            std::uint64_t seed) const;

 private:
  std::size_t row() const { return static_cast<std::size_t>(cap_) + 1; }
  std::size_t table() const { return row() * alphas_.size(); }
  /// Sums over the steps of one cluster, prefix-summed to coverage: adds row() numbers to `out`.
  void add_cluster(std::size_t cluster, std::size_t alpha, double* out) const;

  std::vector<double> alphas_;
  int cap_;
  std::vector<double> mass_;   // [clusters, alphas, cap + 1]; the last: no window up to cap holds it
  std::vector<double> steps_;  // [clusters]
};

}  // namespace dgap::calibrator
