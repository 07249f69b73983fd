#include "trainer/mlp.hpp"

#include <algorithm>
#include <cmath>

#include "trainer/dense.hpp"

namespace dgap::trainer {

MlpShape::MlpShape(int shared, int own, const std::vector<int>& hidden, std::int64_t first)
    : shared_(shared), own_(own), first_(first), end_(first) {
  int inputs = shared + own;
  const auto add = [&](int outputs) {
    const std::int64_t bias = end_ + static_cast<std::int64_t>(outputs) * inputs;
    layers_.push_back({inputs, outputs, end_, bias});
    end_ = bias + outputs;
    inputs = outputs;
  };
  for (const int width : hidden) add(width);
  add(1);
}

void MlpShape::initialise(std::span<float> parameters, base::Random& random) const {
  std::fill(parameters.begin() + first_, parameters.begin() + end_, 0.0f);
  for (const LayerSlots& layer : layers_) {
    if (&layer == &layers_.back()) return;
    const double bound = std::sqrt(3.0 / layer.inputs);
    for (std::int64_t i = layer.weight; i < layer.bias; ++i) {
      parameters[i] = static_cast<float>(bound * (2.0 * random.uniform() - 1.0));
    }
  }
}

void MlpShape::mark_weights(std::span<float> decays) const {
  for (const LayerSlots& layer : layers_) {
    std::fill(decays.begin() + layer.weight, decays.begin() + layer.bias, 1.0f);
  }
}

void MlpShape::store(std::span<const float> parameters, std::span<const float> mean,
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

template <class Real>
MlpPass<Real>::MlpPass(const MlpShape& shape, std::int64_t width, int max_segments)
    : shape_(&shape), width_(width), stride_(stride_for(width * max_segments)) {
  const auto& layers = shape.layers();
  shared_inputs_.resize(static_cast<std::size_t>(max_segments) * shape.shared());
  starts_.resize(static_cast<std::size_t>(max_segments) * layers.front().outputs);
  int widest = shape.own();
  values_.emplace_back(shape.own() * stride_);
  for (const LayerSlots& layer : layers) {
    values_.emplace_back(layer.outputs * stride_);
    slopes_.emplace_back(&layer == &layers.front() ? 0 : layer.inputs * stride_);
    widest = std::max(widest, layer.outputs);
  }
  sums_.resize(static_cast<std::size_t>(widest));
  upstream_.resize(widest * stride_);
  downstream_.resize(widest * stride_);
}

/// starts_[s] = bias + sum over the shared inputs of segment s, in the runtime's order.
template <class Real>
void MlpPass<Real>::first_layer_starts(const Real* parameters, int segments) {
  const LayerSlots& layer = shape_->layers().front();
  const int shared = shape_->shared();
  for (int s = 0; s < segments; ++s) {
    const Real* const x = shared_inputs_.data() + s * shared;
    for (int o = 0; o < layer.outputs; ++o) {
      const Real* const w = parameters + layer.weight + std::int64_t{o} * layer.inputs;
      Real sum = parameters[layer.bias + o];
      for (int i = 0; i < shared; ++i) sum += x[i] * w[i];
      starts_[s * layer.outputs + o] = sum;
    }
  }
}

template <class Real>
const Real* MlpPass<Real>::forward(const Real* parameters, int segments) {
  const auto& layers = shape_->layers();
  const std::int64_t rows = segments * width_;
  segments_ = segments;
  first_layer_starts(parameters, segments);
  const LayerSlots& first = layers.front();
  const Weights own{first.inputs, 1, first.outputs, shape_->own()};
  for (int s = 0; s < segments; ++s) {
    multiply(own, parameters + first.weight + shape_->shared(), starts_.data() + s * first.outputs,
             values_[0].data() + s * width_, values_[1].data() + s * width_, width_, stride_);
  }
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const LayerSlots& layer = layers[i];
    activate(layer.inputs, values_[i].data(), slopes_[i].data(), rows, stride_);
    multiply({layer.inputs, 1, layer.outputs, layer.inputs}, parameters + layer.weight,
             parameters + layer.bias, values_[i].data(), values_[i + 1].data(), rows, stride_);
  }
  return values_.back().data();
}

template <class Real>
void MlpPass<Real>::backward(const Real* parameters, const Real* upstream, Real* gradient) {
  const auto& layers = shape_->layers();
  const std::int64_t rows = segments_ * width_;
  const Real* up = upstream;
  for (std::size_t i = layers.size() - 1; i > 0; --i) {
    const LayerSlots& layer = layers[i];
    add_weight_gradient(layer.outputs, layer.inputs, up, values_[i].data(), gradient + layer.weight,
                        layer.inputs, rows, stride_);
    row_sums(layer.outputs, up, sums_.data(), rows, stride_);
    accumulate(sums_.data(), gradient + layer.bias, layer.outputs);
    multiply({1, layer.inputs, layer.inputs, layer.outputs}, parameters + layer.weight,
             static_cast<const Real*>(nullptr), up, downstream_.data(), rows, stride_);
    scale_by(layer.inputs, slopes_[i].data(), downstream_.data(), rows, stride_);
    upstream_.swap(downstream_);
    up = upstream_.data();
  }
  const LayerSlots& first = layers.front();
  const int shared = shape_->shared();
  add_weight_gradient(first.outputs, shape_->own(), up, values_[0].data(),
                      gradient + first.weight + shared, first.inputs, rows, stride_);
  for (int s = 0; s < segments_; ++s) {
    row_sums(first.outputs, up + s * width_, sums_.data(), width_, stride_);
    accumulate(sums_.data(), gradient + first.bias, first.outputs);
    const Real* const x = shared_inputs_.data() + s * shared;
    for (int o = 0; o < first.outputs; ++o) {
      Real* const dw = gradient + first.weight + std::int64_t{o} * first.inputs;
      for (int k = 0; k < shared; ++k) dw[k] += sums_[o] * x[k];
    }
  }
}

template class MlpPass<float>;
template class MlpPass<double>;

}  // namespace dgap::trainer
