#include "trainer/calibration.hpp"

#include <algorithm>
#include <cmath>

#include "base/exp.hpp"
#include "base/log.hpp"

namespace dgap::trainer {
namespace {

constexpr int kIterations = 100;

/// Cross-entropy of the pulled labels, its gradient and its second derivatives.
struct Loss {
  double value = 0, by_scale = 0, by_offset = 0;
  double scale_scale = 0, scale_offset = 0, offset_offset = 0;
};

class Problem {
 public:
  Problem(std::span<const float> outputs, std::span<const std::uint8_t> labels)
      : outputs_(outputs), labels_(labels) {
    const auto positives = static_cast<double>(std::count(labels.begin(), labels.end(), 1));
    const double negatives = static_cast<double>(labels.size()) - positives;
    target_[0] = 1.0 / (negatives + 2.0);
    target_[1] = (positives + 1.0) / (positives + 2.0);
  }

  Loss at(const schemas::RiskScale& c) const {
    Loss loss;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const double f = outputs_[i], z = c.scale * f + c.offset, t = target_[labels_[i]];
      const double small = base::exp_f64(-std::fabs(z));  // stable for any sign
      const double p = z >= 0.0 ? 1.0 / (1.0 + small) : small / (1.0 + small);
      loss.value += std::max(z, 0.0) - t * z + base::log1p_f64(small);
      loss.by_scale += (p - t) * f;
      loss.by_offset += p - t;
      const double weight = p * (1.0 - p);
      loss.scale_scale += weight * f * f;
      loss.scale_offset += weight * f;
      loss.offset_offset += weight;
    }
    return loss;
  }

 private:
  std::span<const float> outputs_;
  std::span<const std::uint8_t> labels_;
  double target_[2];
};

}  // namespace

schemas::RiskScale calibrate(std::span<const float> outputs, std::span<const std::uint8_t> labels) {
  const auto positives = std::count(labels.begin(), labels.end(), 1);
  if (positives == 0 || positives == static_cast<std::ptrdiff_t>(labels.size())) return {};
  const Problem problem(outputs, labels);
  schemas::RiskScale best;
  Loss loss = problem.at(best);
  for (int i = 0; i < kIterations; ++i) {
    constexpr double kRidge = 1e-12;  // keeps the matrix regular where all outputs are equal
    const double a = loss.scale_scale + kRidge, b = loss.scale_offset;
    const double d = loss.offset_offset + kRidge, determinant = a * d - b * b;
    const double down_scale = (b * loss.by_offset - d * loss.by_scale) / determinant;
    const double down_offset = (b * loss.by_scale - a * loss.by_offset) / determinant;
    const double slope = down_scale * loss.by_scale + down_offset * loss.by_offset;
    double step = 1.0;
    bool better = false;
    for (; step > 1e-10 && !better; step *= 0.5) {
      const schemas::RiskScale tried{best.scale + step * down_scale,
                                     best.offset + step * down_offset};
      const Loss found = problem.at(tried);
      better = found.value < loss.value + 1e-4 * step * slope;
      if (better) best = tried, loss = found;
    }
    if (!better) break;
  }
  const bool usable = best.scale > 0.0 && std::isfinite(best.scale) && std::isfinite(best.offset);
  return usable ? best : schemas::RiskScale{};
}

void fold(const schemas::RiskScale& calibration, const std::string& prefix, int layers,
          schemas::Tensors& tensors) {
  const std::string last = prefix + "." + std::to_string(layers - 1);
  for (float& weight : tensors.at(last + ".weight").data) {
    weight = static_cast<float>(weight * calibration.scale);
  }
  float& bias = tensors.at(last + ".bias").data.front();
  bias = static_cast<float>(bias * calibration.scale + calibration.offset);
}

}  // namespace dgap::trainer
