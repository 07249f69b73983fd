#include "calibrator/adaptive_window.hpp"

#include <numbers>

#include "base/exp.hpp"
#include "statistics/resampling.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {
namespace {

constexpr int kPerHalving = 16, kHalvings = 16;

std::vector<double> grid() {
  std::vector<double> masses;
  for (int i = 0; i < kPerHalving * kHalvings; ++i) {
    masses.push_back(1.0 - base::exp_f64(-std::numbers::ln2 * i / kPerHalving));
  }
  masses.push_back(1.0);
  return masses;
}

/// Sums over all clusters: [width].
std::vector<double> totals(const std::vector<double>& by_cluster, std::size_t width) {
  std::vector<double> total(width);
  for (std::size_t i = 0; i < by_cluster.size(); ++i) total[i % width] += by_cluster[i];
  return total;
}

}  // namespace

AdaptiveCurve::AdaptiveCurve(double alpha, int window)
    : alpha_(alpha), window_(window), masses_(grid()) {}

void AdaptiveCurve::add(const schemas::TracePart& trace, std::size_t precision,
                        std::span<const Site> sites) {
  for (const Site& site : sites) {
    const auto cluster = static_cast<std::size_t>(site.cluster);
    if (cluster >= steps_.size()) {
      steps_.resize(cluster + 1);
      coverage_.resize(steps_.size() * masses_.size());
      size_.resize(coverage_.size());
    }
    for (const std::int64_t step : site.steps) add_step(trace, precision, step, cluster);
    steps_[cluster] += static_cast<double>(site.steps.size());
  }
}

void AdaptiveCurve::add_step(const schemas::TracePart& trace, std::size_t precision,
                             std::int64_t step, std::size_t cluster) {
  statistics::coverage_by_size(trace, precision, step, alpha_, window_, held_, covered_);
  double* const coverage = coverage_.data() + cluster * masses_.size();
  double* const size = size_.data() + cluster * masses_.size();
  std::size_t k = 0;  // K_t - 1
  for (std::size_t i = 0; i < masses_.size(); ++i) {
    const bool all = masses_[i] >= 1.0;
    while (k + 1 < held_.size() && (all || held_[k] < masses_[i])) ++k;
    coverage[i] += covered_[k];
    size[i] += static_cast<double>(k + 1);
  }
}

schemas::AdaptiveWindow AdaptiveCurve::choose(double share, double confidence, int resamples,
                                              std::uint64_t seed) const {
  const std::size_t width = masses_.size();
  std::vector<double> kept = coverage_;  // what is kept beyond the share of K_b's
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] -= share * coverage_[i - i % width + width - 1];
  }
  const bool bounded = confidence > 0.0;
  const double level = 1.0 - confidence;
  const std::vector<double> lower =
      bounded ? statistics::bootstrap_means(kept, steps_, resamples, seed, {&level, 1})
              : std::vector<double>{};
  const std::vector<double> decisive = bounded ? lower : totals(kept, width);
  std::size_t chosen = 0;
  while (chosen + 1 < width && decisive[chosen] < 0.0) ++chosen;

  double steps = 0.0;
  for (const double count : steps_) steps += count;
  schemas::AdaptiveWindow result;
  result.share = share;
  result.mass = masses_[chosen];
  result.curve_mass = masses_;
  result.curve_window = totals(size_, width);
  result.curve_coverage = totals(coverage_, width);
  for (double& x : result.curve_window) x /= steps;
  for (double& x : result.curve_coverage) x /= steps;
  result.window_mean = result.curve_window[chosen];
  result.coverage_mean = result.curve_coverage[chosen];
  if (bounded) {
    const std::vector<double> bounds =
        statistics::bootstrap_means(coverage_, steps_, resamples, seed, {&level, 1});
    result.coverage_lower = bounds[chosen];
  }
  return result;
}

}  // namespace dgap::calibrator
