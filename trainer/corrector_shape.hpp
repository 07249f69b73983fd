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
#include "trainer/token_term.hpp"

namespace dgap::trainer {

/// The networks of one corrector, one after the other in one flat vector of parameters: the shape
/// of the change, with the objective `extended` the mass network, and the tokens' vectors where
/// they are taken.
class CorrectorShape {
 public:
  CorrectorShape(const schemas::CorrectorConfig& config, const Samples& samples);

  /// One network of the whole window: inputs (phi, all candidates') -> a change per candidate.
  bool whole_window() const { return config_.form == "window"; }
  const NetworkShape& shape() const { return shape_; }
  const NetworkShape* mass() const { return mass_ ? &*mass_ : nullptr; }
  /// The tokens' vectors and their query of (phi, hidden state), of whichever is taken.
  const TokenShape* tokens() const { return tokens_ ? &*tokens_ : nullptr; }
  bool query_of_phi() const { return config_.takes("tokens"); }
  std::int64_t end() const { return tokens_ ? tokens_->end() : end_of_networks(); }

  /// The corrector begins as the one that changes nothing.
  void initialise(std::span<float> parameters, base::Random& random) const;
  /// Sets decays[i] = 1 for weights; leaves biases.
  void mark_weights(std::span<float> decays) const;
  /// What a bundle says of it and holds, with the prefix info.tensors.
  void store(std::span<const float> parameters, const Standardisation& standardisation,
             schemas::NetworkInfo& info, schemas::Tensors& tensors) const;

 private:
  std::int64_t end_of_networks() const { return mass_ ? mass_->end() : shape_.end(); }

  schemas::CorrectorConfig config_;
  int window_, own_;
  NetworkShape shape_;
  std::optional<NetworkShape> mass_;
  std::optional<TokenShape> tokens_;
};

}  // namespace dgap::trainer
