#include "trainer/corrector_shape.hpp"

#include "runtime/features.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

std::vector<int> hidden_of(const schemas::CorrectorConfig& config) {
  return config.architecture == "linear" ? std::vector<int>{} : config.hidden;
}

NetworkShape shape_of(const schemas::CorrectorConfig& config, const Samples& samples) {
  const int own = samples.own_inputs();
  if (config.form == "window") {
    const int inputs = kDetectorWidth + samples.window * own;
    return {0, inputs, hidden_of(config), 0, samples.window};
  }
  return config.architecture == "transformer"
             ? NetworkShape(kDetectorWidth, own, config.transformer, 0)
             : NetworkShape(kDetectorWidth, own, hidden_of(config), 0);
}

/// Values of phi and one candidate's inputs, the latter once for each of `window` candidates.
std::vector<float> tiled(const std::vector<float>& values, int window) {
  std::vector<float> all = values;
  for (int i = 1; i < window; ++i) {
    all.insert(all.end(), values.begin() + kDetectorWidth, values.end());
  }
  return all;
}

}  // namespace

CorrectorShape::CorrectorShape(const schemas::CorrectorConfig& config, const Samples& samples)
    : config_(config), window_(samples.window), shape_(shape_of(config, samples)) {
  if (config.objective == "extended") {
    mass_.emplace(0, kDetectorWidth, hidden_of(config), shape_.end());
  }
}

void CorrectorShape::initialise(std::span<float> parameters, base::Random& random) const {
  shape_.initialise(parameters, random);
  if (mass_) mass_->initialise(parameters, random);
}

void CorrectorShape::mark_weights(std::span<float> decays) const {
  shape_.mark_weights(decays);
  if (mass_) mass_->mark_weights(decays);
}

void CorrectorShape::store(std::span<const float> parameters,
                           const Standardisation& standardisation, schemas::NetworkInfo& info,
                           schemas::Tensors& tensors) const {
  info.architecture = config_.architecture;
  info.form = config_.form;
  info.layers = static_cast<int>(shape_.layers().size());
  info.heads = shape_.heads();
  info.mass = mass_.has_value();
  if (mass_ && shape_.is_transformer()) {
    info.mass_layers = static_cast<int>(mass_->layers().size());
  }
  const auto& [mean, scale] = standardisation;
  const int repeats = whole_window() ? window_ : 1;
  shape_.store(parameters, tiled(mean, repeats), tiled(scale, repeats), info.tensors + ".shape",
               tensors);
  if (mass_) mass_->store(parameters, mean, scale, info.tensors + ".mass", tensors);
}

}  // namespace dgap::trainer
