#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"
#include "schemas/config/config.hpp"
#include "trainer/network_shape.hpp"
#include "trainer/samples.hpp"
#include "trainer/standardisation.hpp"

namespace dgap::trainer {

/// The networks of one corrector, one after the other in one flat vector of parameters: the shape
/// of the change, and with the objective `extended` the mass network.
class CorrectorShape {
 public:
  CorrectorShape(const schemas::CorrectorConfig& config, const Samples& samples);

  /// One network of the whole window: inputs (phi, all candidates') -> a change per candidate.
  bool whole_window() const { return config_.form == "window"; }
  const NetworkShape& shape() const { return shape_; }
  const NetworkShape* mass() const { return mass_ ? &*mass_ : nullptr; }
  std::int64_t end() const { return mass_ ? mass_->end() : shape_.end(); }

  /// The corrector begins as the one that changes nothing.
  void initialise(std::span<float> parameters, base::Random& random) const;
  /// Sets decays[i] = 1 for weights; leaves biases.
  void mark_weights(std::span<float> decays) const;
  /// What a bundle says of it and holds, with the prefix info.tensors.
  void store(std::span<const float> parameters, const Standardisation& standardisation,
             schemas::NetworkInfo& info, schemas::Tensors& tensors) const;

 private:
  schemas::CorrectorConfig config_;
  int window_;
  NetworkShape shape_;
  std::optional<NetworkShape> mass_;
};

}  // namespace dgap::trainer
