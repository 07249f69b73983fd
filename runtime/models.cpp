#include "runtime/models.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "runtime/tensor_of.hpp"

namespace dgap::runtime {

Detector::Detector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors)
    : escalates_(info.escalate),
      constant_(info.architecture == "constant"),
      constant_risk_(static_cast<float>(info.constant_risk)) {
  if (!constant_) network_ = Network(tensors, info.tensors, info.layers, kDetectorWidth, 1);
  if (escalates_) {
    escalation_ = Network(tensors, info.tensors + ".escalate", info.layers, kDetectorWidth, 1);
  }
}

std::size_t Detector::scratch_floats() const {
  return std::max(network_.scratch_floats(), escalation_.scratch_floats());
}

float Detector::escalation(const float* phi, float* scratch) const {
  if (!escalates_) return 0.0f;
  float logit = 0.0f;
  escalation_.forward({}, phi, 1, &logit, scratch);
  return sigmoid(logit);
}

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
  const std::string shape = info.tensors + ".shape";
  if (info.architecture == "transformer") {
    transformer_.emplace(tensors, shape, info.layers, info.heads, kDetectorWidth + own_inputs());
  } else if (info.form == "window") {
    const std::string last = shape + "." + std::to_string(info.layers - 1) + ".bias";
    whole_window_ = static_cast<int>(extent_of(tensors, last));
    shape_ = Network(tensors, shape, info.layers, kDetectorWidth + whole_window_ * own_inputs(),
                     whole_window_);
  } else {
    shape_ = Network(tensors, shape, info.layers, kDetectorWidth + own_inputs(), 1);
  }
  if (info.has_vectors()) {
    tokens_.emplace(tensors, info.tensors, info.rank);
    query_of_phi_ = info.takes("tokens");
    hidden_size_ = tokens_->inputs() - (query_of_phi_ ? kDetectorWidth : 0);
    if ((hidden_size_ > 0) != info.takes("hidden")) {
      throw base::IoError("tensor " + info.tensors + ".query.mean has " +
                          std::to_string(tokens_->inputs()) +
                          " inputs, which are not those that the corrector takes");
    }
  }
  if (has_mass_) {
    mass_ = Network(tensors, info.tensors + ".mass", info.layers_of_mass(), kDetectorWidth, 1);
  }
}

// Phi and the candidates' inputs, side by side as a network of the whole window takes them; the
// changes of one; what the networks need.
Corrector::Scratch Corrector::scratch(int window) const {
  if (whole_window_ > 0 && window > whole_window_) {
    throw base::IoError("the corrector is of windows of " + std::to_string(whole_window_) +
                        " candidates; the bundle's have " + std::to_string(window));
  }
  Scratch scratch;
  const int most = std::max(window, whole_window_);
  scratch.floats.resize(kDetectorWidth + static_cast<std::size_t>(most) * own_inputs() +
                        static_cast<std::size_t>(whole_window_) +
                        std::max({shape_.scratch_floats(), mass_.scratch_floats(),
                                  tokens_ ? tokens_->scratch_floats() : 0,
                                  transformer_ ? transformer_->scratch_floats(window) : 0}));
  if (takes_context_) scratch.context.emplace(window);
  return scratch;
}

void Corrector::deltas(const CorrectorStep& step, float* delta, Scratch& scratch) const {
  const auto k = static_cast<std::int64_t>(step.window.size());
  if (identity_) {
    std::fill_n(delta, k, 0.0f);
    return;
  }
  const int own = own_inputs();
  const std::span<const float> phi(step.phi, kDetectorWidth);
  float* const inputs = scratch.floats.data();
  float* const candidates = std::copy(phi.begin(), phi.end(), inputs);
  float* const rest = candidates + std::max<std::int64_t>(k, whole_window_) * own;
  candidate_features(step.window, step.lse, candidates, own);
  if (takes_context_) {
    scratch.context->compute(*step.context, step.ids, candidates + kCandidateWidth, own);
  }
  if (transformer_) {
    transformer_->forward(phi, candidates, k, delta, rest);
  } else if (whole_window_ > 0) {
    const auto mean = shape_.mean().subspan(kDetectorWidth + k * own);
    std::copy(mean.begin(), mean.end(), candidates + k * own);  // lacking candidates: 0
    float* const changes = rest;
    shape_.forward({}, inputs, 1, changes, rest + whole_window_);
    std::copy_n(changes, k, delta);
  } else {
    shape_.forward(phi, candidates, k, delta, rest);
  }
  if (tokens_) {
    const auto shared = query_of_phi_ && takes_hidden() ? phi : std::span<const float>();
    tokens_->add(shared, takes_hidden() ? step.hidden : step.phi, step.ids, delta, rest);
  }
  if (!has_mass_) return;
  float offset = 0.0f;
  mass_.forward({}, step.phi, 1, &offset, rest);
  for (std::int64_t i = 0; i < k; ++i) delta[i] += offset;
}

}  // namespace dgap::runtime
