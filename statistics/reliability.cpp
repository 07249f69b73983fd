#include "statistics/reliability.hpp"

#include <algorithm>
#include <cmath>

namespace dgap::statistics {

Reliability reliability(std::span<const float> scores, std::span<const std::uint8_t> labels) {
  Reliability result;
  result.score.resize(kReliabilityBins);
  result.frequency.resize(kReliabilityBins);
  result.count.resize(kReliabilityBins);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto at = static_cast<int>(scores[i] * kReliabilityBins);
    const int bin = std::clamp(at, 0, kReliabilityBins - 1);
    result.score[bin] += scores[i];
    result.frequency[bin] += labels[i] != 0 ? 1.0 : 0.0;
    ++result.count[bin];
  }
  const auto steps = static_cast<double>(scores.size());
  for (int bin = 0; bin < kReliabilityBins; ++bin) {
    const auto count = static_cast<double>(result.count[bin]);
    if (count > 0.0) result.error += std::fabs(result.score[bin] - result.frequency[bin]) / steps;
    result.score[bin] /= count;  // NaN where empty
    result.frequency[bin] /= count;
  }
  return result;
}

}  // namespace dgap::statistics
