#include "trainer/network_shape.hpp"

#include <algorithm>
#include <cmath>

namespace dgap::trainer {

NetworkShape::NetworkShape(int shared, int own, const std::vector<int>& hidden, std::int64_t first,
                           int outputs)
    : shared_(shared), own_(own), first_(first), end_(first) {
  int inputs = shared + own;
  for (const int width : hidden) {
    add(inputs, width);
    inputs = width;
  }
  add(inputs, outputs);
}

NetworkShape::NetworkShape(int shared, int own, const schemas::TransformerConfig& size,
                           std::int64_t first)
    : shared_(shared), own_(own), heads_(size.heads), first_(first), end_(first) {
  add(shared + own, size.width);
  for (int block = 0; block < size.blocks; ++block) {
    add(size.width, 3 * size.width);
    add(size.width, size.width);
    add(size.width, size.hidden);
    add(size.hidden, size.width);
  }
  add(size.width, 1);
}

void NetworkShape::add(int inputs, int outputs) {
  const std::int64_t bias = end_ + static_cast<std::int64_t>(outputs) * inputs;
  layers_.push_back({inputs, outputs, end_, bias});
  end_ = bias + outputs;
}

void NetworkShape::initialise(std::span<float> parameters, base::Random& random) const {
  std::fill(parameters.begin() + first_, parameters.begin() + end_, 0.0f);
  for (const LayerSlots& layer : layers_) {
    if (&layer == &layers_.back()) return;
    const double bound = std::sqrt(3.0 / layer.inputs);
    for (std::int64_t i = layer.weight; i < layer.bias; ++i) {
      parameters[i] = static_cast<float>(bound * (2.0 * random.uniform() - 1.0));
    }
  }
}

void NetworkShape::mark_weights(std::span<float> decays) const {
  for (const LayerSlots& layer : layers_) {
    std::fill(decays.begin() + layer.weight, decays.begin() + layer.bias, 1.0f);
  }
}

void NetworkShape::store(std::span<const float> parameters, std::span<const float> mean,
                         std::span<const float> scale, const std::string& prefix,
                         schemas::Tensors& tensors) const {
  const std::int64_t inputs = layers_.front().inputs;
  tensors[prefix + ".mean"] = {{inputs}, {mean.begin(), mean.begin() + inputs}};
  tensors[prefix + ".scale"] = {{inputs}, {scale.begin(), scale.begin() + inputs}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerSlots& layer = layers_[i];
    const auto slice = [&](std::int64_t begin, std::int64_t count) {
      return std::vector<float>(parameters.begin() + begin, parameters.begin() + begin + count);
    };
    const std::string name = prefix + "." + std::to_string(i);
    tensors[name + ".weight"] = {{layer.outputs, layer.inputs},
                                 slice(layer.weight, layer.bias - layer.weight)};
    tensors[name + ".bias"] = {{layer.outputs}, slice(layer.bias, layer.outputs)};
  }
}

}  // namespace dgap::trainer
