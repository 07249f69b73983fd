#include "engine/cache/level_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace dgap::engine {
namespace {

constexpr int kBins = 1 << 16;
constexpr int kMaxIterations = 200;

}  // namespace

LevelFit::LevelFit() : mass_(kBins, 0.0), sum_(kBins, 0.0) {}

void LevelFit::add(float value, double weight) {
  const float scaled = (value + 1.0f) * (kBins / 2);
  const auto bin = static_cast<std::size_t>(std::clamp(scaled, 0.0f, kBins - 1.0f));
  mass_[bin] += weight;
  sum_[bin] += weight * static_cast<double>(value);
}

template <class Take>
void LevelFit::assign(const std::vector<double>& levels, const Take& take) const {
  std::size_t k = 0;
  for (std::size_t bin = 0; bin < mass_.size(); ++bin) {
    if (mass_[bin] == 0.0) continue;
    const double mean = sum_[bin] / mass_[bin];
    while (k + 1 < levels.size() && mean >= (levels[k] + levels[k + 1]) / 2) ++k;
    take(k, mass_[bin], sum_[bin]);
  }
}

std::vector<float> LevelFit::levels(int count) const {
  const double total = std::accumulate(mass_.begin(), mass_.end(), 0.0);
  std::vector<double> levels;
  double before = 0.0;
  for (std::size_t bin = 0; bin < mass_.size(); ++bin) {
    before += mass_[bin];
    while (total > 0.0 && std::ssize(levels) < count &&
           before >= total * (static_cast<double>(levels.size()) + 0.5) / count)
      levels.push_back(sum_[bin] / mass_[bin]);
  }
  while (std::ssize(levels) < count)
    levels.push_back((2.0 * static_cast<double>(levels.size()) + 1.0) / count - 1.0);
  for (int i = 0; i < kMaxIterations; ++i) {
    std::vector<double> mass(levels.size(), 0.0), sum(levels.size(), 0.0), next = levels;
    assign(levels, [&](std::size_t k, double m, double s) { mass[k] += m, sum[k] += s; });
    for (std::size_t k = 0; k < levels.size(); ++k)
      if (mass[k] > 0.0) next[k] = sum[k] / mass[k];
    std::sort(next.begin(), next.end());
    if (next == levels) break;
    levels = std::move(next);
  }
  return {levels.begin(), levels.end()};
}

std::vector<float> LevelFit::normalised_reads(const std::vector<float>& levels) const {
  const std::vector<double> exact(levels.begin(), levels.end());
  double mass = 0.0, sum = 0.0, squares = 0.0, coded_sum = 0.0, coded_squares = 0.0;
  assign(exact, [&](std::size_t k, double m, double s) {
    mass += m;
    sum += s, squares += s * s / m;
    coded_sum += m * exact[k], coded_squares += m * exact[k] * exact[k];
  });
  if (mass == 0.0) return levels;
  const double mean = sum / mass, coded_mean = coded_sum / mass;
  const double variance = squares / mass - mean * mean;
  const double coded = coded_squares / mass - coded_mean * coded_mean;
  if (!(variance > 0.0 && coded > 0.0)) return levels;
  const double scale = std::sqrt(variance / coded);
  std::vector<float> reads;
  for (const double level : exact)
    reads.push_back(static_cast<float>(level * scale + mean - coded_mean * scale));
  return reads;
}

}  // namespace dgap::engine
