#include "runtime/models.hpp"

#include <algorithm>

namespace dgap::runtime {

Detector::Detector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors)
    : constant_(info.architecture == "constant"),
      constant_risk_(static_cast<float>(info.constant_risk)) {
  if (!constant_) network_ = Network(tensors, info.tensors, info.layers, kDetectorWidth, 1);
}

std::size_t Detector::scratch_floats() const { return network_.scratch_floats(); }

float Detector::risk(const float* phi, float* scratch) const {
  if (constant_) return constant_risk_;
  float logit = 0.0f;
  network_.forward({}, phi, 1, &logit, scratch);
  return sigmoid(logit);
}

Corrector::Corrector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors)
    : has_mass_(info.mass), identity_(info.architecture == "none") {
  if (identity_) return;
  shape_ =
      Network(tensors, info.tensors + ".shape", info.layers, kDetectorWidth + kCandidateWidth, 1);
  if (has_mass_) mass_ = Network(tensors, info.tensors + ".mass", info.layers, kDetectorWidth, 1);
}

std::size_t Corrector::scratch_floats(int window) const {
  return static_cast<std::size_t>(window) * kCandidateWidth +
         std::max(shape_.scratch_floats(), mass_.scratch_floats());
}

void Corrector::deltas(const float* phi, std::span<const float> window, double lse, float* delta,
                       float* scratch) const {
  const auto k = static_cast<std::int64_t>(window.size());
  if (identity_) {
    std::fill_n(delta, k, 0.0f);
    return;
  }
  float* const candidates = scratch;
  float* const rest = scratch + k * kCandidateWidth;
  candidate_features(window, lse, candidates);
  shape_.forward({phi, kDetectorWidth}, candidates, k, delta, rest);
  if (!has_mass_) return;
  float offset = 0.0f;
  mass_.forward({}, phi, 1, &offset, rest);
  for (std::int64_t i = 0; i < k; ++i) delta[i] += offset;
}

}  // namespace dgap::runtime
