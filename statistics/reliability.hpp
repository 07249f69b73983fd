#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dgap::statistics {

/// How well scores in [0, 1] work as probabilities of their labels: a reliability diagram of
/// kReliabilityBins bins of equal width (arXiv:1706.04599).
inline constexpr int kReliabilityBins = 15;
struct Reliability {
  std::vector<double> score, frequency;  // means within a bin, NaN where it is empty
  std::vector<std::int64_t> count;
  double error = 0;  // expected calibration error: mean |score - frequency|, weighted by count
};
Reliability reliability(std::span<const float> scores, std::span<const std::uint8_t> labels);

}  // namespace dgap::statistics
