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
    : has_mass_(info.mass),
      takes_context_(info.architecture != "none" && info.takes("context")),
      identity_(info.architecture == "none") {
  if (identity_) return;
  shape_ = Network(tensors, info.tensors + ".shape", info.layers, kDetectorWidth + own_inputs(), 1);
  if (has_mass_) mass_ = Network(tensors, info.tensors + ".mass", info.layers, kDetectorWidth, 1);
}

Corrector::Scratch Corrector::scratch(int window) const {
  Scratch scratch;
  scratch.floats.resize(static_cast<std::size_t>(window) * own_inputs() +
                        std::max(shape_.scratch_floats(), mass_.scratch_floats()));
  if (takes_context_) scratch.context.emplace(window);
  return scratch;
}

void Corrector::deltas(const CorrectorStep& step, float* delta, Scratch& scratch) const {
  const auto k = static_cast<std::int64_t>(step.window.size());
  if (identity_) {
    std::fill_n(delta, k, 0.0f);
    return;
  }
  const int stride = own_inputs();
  float* const candidates = scratch.floats.data();
  float* const rest = candidates + k * stride;
  candidate_features(step.window, step.lse, candidates, stride);
  if (takes_context_) {
    scratch.context->compute(*step.context, step.ids, candidates + kCandidateWidth, stride);
  }
  shape_.forward({step.phi, kDetectorWidth}, candidates, k, delta, rest);
  if (!has_mass_) return;
  float offset = 0.0f;
  mass_.forward({}, step.phi, 1, &offset, rest);
  for (std::int64_t i = 0; i < k; ++i) delta[i] += offset;
}

}  // namespace dgap::runtime
