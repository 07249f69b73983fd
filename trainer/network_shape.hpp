#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "runtime/transformer.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/config/config.hpp"

namespace dgap::trainer {

/// Weights of one layer inside a flat vector of parameters: weight [outputs, inputs] at `weight`,
/// bias [outputs] at `bias`.
struct LayerSlots {
  int inputs = 0, outputs = 0;
  std::int64_t weight = 0, bias = 0;
};

/// A network, with one output where nothing else is said, as the runtime serves it: the first
/// `shared` inputs are common to all samples of a segment (the features of a decode step), the
/// others are each sample's own. Parameters live in the caller's flat vector from `first` on, so
/// that one optimiser step covers several networks.
class NetworkShape {
 public:
  /// Feed-forward (runtime::Network). hidden: widths between inputs and outputs; empty for a linear
  /// model.
  NetworkShape(int shared, int own, const std::vector<int>& hidden, std::int64_t first,
               int outputs = 1);
  /// runtime::Transformer.
  NetworkShape(int shared, int own, const schemas::TransformerConfig& size, std::int64_t first);

  int shared() const { return shared_; }
  int own() const { return own_; }
  std::int64_t first() const { return first_; }
  std::int64_t end() const { return end_; }
  const std::vector<LayerSlots>& layers() const { return layers_; }

  bool is_transformer() const { return heads_ > 0; }
  int heads() const { return heads_; }
  int blocks() const { return (static_cast<int>(layers_.size()) - 2) / runtime::kLayersPerBlock; }
  const LayerSlots& layer(int block, runtime::BlockLayer which) const {
    return layers_[1 + block * runtime::kLayersPerBlock + static_cast<int>(which)];
  }

  /// Weights uniform with variance 1 / inputs, biases and the whole last layer 0: the network
  /// begins as the constant 0.
  void initialise(std::span<float> parameters, base::Random& random) const;

  /// Sets decays[i] = 1 for weights; leaves biases.
  void mark_weights(std::span<float> decays) const;

  /// Tensors `prefix`.mean, .scale, .<i>.weight, .<i>.bias.
  void store(std::span<const float> parameters, std::span<const float> mean,
             std::span<const float> scale, const std::string& prefix,
             schemas::Tensors& tensors) const;

 private:
  void add(int inputs, int outputs);

  int shared_, own_, heads_ = 0;
  std::int64_t first_, end_;
  std::vector<LayerSlots> layers_;
};

}  // namespace dgap::trainer
