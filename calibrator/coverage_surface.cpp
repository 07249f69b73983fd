#include "calibrator/coverage_surface.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "statistics/resampling.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::size_t kSitesAtOnce = 16;  // tables that are filled in parallel

/// The candidates of one step into `mass` [alphas, cap + 1].
void add_step(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
              std::span<const double> alphas, int cap, std::vector<double>& scratch, double* mass) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const std::span<const double> probabilities =
      statistics::candidate_probabilities(trace, step, alphas.back(), scratch);
  const std::int64_t first = trace.reference.candidate_first[step];
  const std::int32_t* const ranks = trace.columns[precision].candidate_ranks.data() + first;
  const float* const logits = trace.columns[precision].candidate_logits.data() + first;
  double before = 0.0;
  const double* alpha = alphas.data();
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    for (; before >= *alpha; ++alpha) mass += cap + 1;
    mass[logits[i] > kMasked ? std::min(ranks[i], cap) : cap] += probabilities[i];
    before += probabilities[i];
  }
}

}  // namespace

CoverageSurface::CoverageSurface(std::vector<double> alphas, int cap)
    : alphas_(std::move(alphas)), cap_(cap), mass_(table()), steps_(1) {}

void CoverageSurface::add(const schemas::TracePart& trace, std::size_t precision,
                          std::span<const Site> sites) {
  std::vector<double> tables(std::min(sites.size(), kSitesAtOnce) * table());
  for (std::size_t first = 0; first < sites.size(); first += kSitesAtOnce) {
    const auto batch = sites.subspan(first, std::min(kSitesAtOnce, sites.size() - first));
    std::fill(tables.begin(), tables.end(), 0.0);
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, batch.size(), 1), [&](const auto& range) {
      std::vector<double> scratch;
      for (std::size_t i = range.begin(); i != range.end(); ++i) {
        for (const std::int64_t step : batch[i].steps) {
          add_step(trace, precision, step, alphas_, cap_, scratch, tables.data() + i * table());
        }
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto cluster = static_cast<std::size_t>(batch[i].cluster);
      if (cluster >= steps_.size()) {
        steps_.resize(cluster + 1);
        mass_.resize(steps_.size() * table());
      }
      steps_[cluster] += static_cast<double>(batch[i].steps.size());
      const double* const filled = tables.data() + i * table();
      double* const sum = mass_.data() + cluster * table();
      for (std::size_t j = 0; j < table(); ++j) sum[j] += filled[j];
    }
  }
}

void CoverageSurface::add_cluster(std::size_t cluster, std::size_t alpha, double* out) const {
  const double* const mass = mass_.data() + cluster * table();
  double sum = 0.0;
  for (std::size_t k = 0; k < row(); ++k) {
    for (std::size_t a = 0; a <= alpha; ++a) sum += mass[a * row() + k];
    out[k] += sum;
  }
}

std::vector<double> CoverageSurface::coverage(std::size_t alpha) const {
  std::vector<double> result(row());
  for (std::size_t cluster = 0; cluster < steps_.size(); ++cluster) {
    add_cluster(cluster, alpha, result.data());
  }
  const double steps = std::accumulate(steps_.begin(), steps_.end(), 0.0);
  for (double& value : result) value /= steps;
  return result;
}

std::vector<double> CoverageSurface::lower(std::size_t alpha, double confidence, int resamples,
                                           std::uint64_t seed) const {
  std::vector<double> sums(steps_.size() * row());
  for (std::size_t cluster = 0; cluster < steps_.size(); ++cluster) {
    add_cluster(cluster, alpha, sums.data() + cluster * row());
  }
  const double level = 1.0 - confidence;
  return statistics::bootstrap_means(sums, steps_, resamples, seed, {&level, 1});
}

}  // namespace dgap::calibrator
