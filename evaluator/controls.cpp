#include "evaluator/controls.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace dgap::evaluator {
namespace {

/// Standard deviation of z_q - z_fp over the candidates that both decodes allow.
double deviation(const statistics::StepWindow& window) {
  double count = 0.0, sum = 0.0, squares = 0.0;
  for (int i = 0; i < window.k(); ++i) {
    const double difference = window.logits()[i] - window.reference_logits()[i];
    if (!std::isfinite(difference)) continue;
    count += 1.0, sum += difference, squares += difference * difference;
  }
  if (count == 0.0) return 0.0;
  const double mean = sum / count;
  return std::sqrt(std::max(squares / count - mean * mean, 0.0));
}

}  // namespace

void quantized_ranking(const statistics::StepWindow& window, std::span<float> edited) {
  window.oracle(edited);
  std::sort(edited.begin(), edited.end(), std::greater<>());
}

void shift(const statistics::StepWindow& window, float offset, std::span<float> edited) {
  for (std::size_t i = 0; i < edited.size(); ++i) {
    const float shifted = window.logits()[i] + offset;  // rounded to f32 (no -ffast-math)
    edited[i] = shifted - offset;
  }
}

void Noise::draw(const statistics::StepWindow& window, base::Random& random,
                 std::span<float> noisy, std::span<float> resorted) {
  const std::span<const float> reference = window.reference_logits();
  const double sigma = deviation(window);
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    noisy[i] = static_cast<float>(reference[i] + sigma * random.normal());
  }
  window.align_mass(noisy);
  order_.resize(noisy.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return reference[a] != reference[b] ? reference[a] > reference[b]
                                        : window.ids()[a] < window.ids()[b];
  });
  // The sorted values, each to the place that its rank has in the reference's order.
  sorted_.assign(noisy.begin(), noisy.end());
  std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  for (std::size_t rank = 0; rank < order_.size(); ++rank) resorted[order_[rank]] = sorted_[rank];
}

}  // namespace dgap::evaluator
