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

/// Values of phi, and those of one candidate's `own` inputs `times` over.
std::vector<float> tiled(const std::vector<float>& values, int own, int times) {
  const auto candidate = values.begin() + kDetectorWidth;
  std::vector<float> all(values.begin(), candidate);
  for (int i = 0; i < times; ++i) all.insert(all.end(), candidate, candidate + own);
  return all;
}

}  // namespace

CorrectorShape::CorrectorShape(const schemas::CorrectorConfig& config, const Samples& samples)
    : config_(config),
      window_(samples.window),
      own_(samples.own_inputs()),
      shape_(shape_of(config, samples)) {
  if (config.objective == "extended") {
    mass_.emplace(0, kDetectorWidth, hidden_of(config), shape_.end());
  }
  if (config.takes("tokens") || config.takes("hidden")) {
    const int inputs = (query_of_phi() ? kDetectorWidth : 0) + samples.hidden_width();
    tokens_.emplace(samples.vocab_size, config.rank, inputs, end_of_networks());
  }
}

void CorrectorShape::initialise(std::span<float> parameters, base::Random& random) const {
  shape_.initialise(parameters, random);
  if (mass_) mass_->initialise(parameters, random);
  if (tokens_) tokens_->initialise(parameters, random);
}

void CorrectorShape::mark_weights(std::span<float> decays) const {
  shape_.mark_weights(decays);
  if (mass_) mass_->mark_weights(decays);
  if (tokens_) tokens_->mark_weights(decays);
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
  shape_.store(parameters, tiled(mean, own_, repeats), tiled(scale, own_, repeats),
               info.tensors + ".shape", tensors);
  if (mass_) mass_->store(parameters, mean, scale, info.tensors + ".mass", tensors);
  if (!tokens_) return;
  info.rank = tokens_->rank();
  const auto query = [&](const std::vector<float>& values) {  // of (phi, hidden state)
    std::vector<float> all;
    if (query_of_phi()) all.assign(values.begin(), values.begin() + kDetectorWidth);
    all.insert(all.end(), values.begin() + kDetectorWidth + own_, values.end());
    return all;
  };
  tokens_->store(parameters, query(mean), query(scale), info.tensors, tensors);
}

}  // namespace dgap::trainer
