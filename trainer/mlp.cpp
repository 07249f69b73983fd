#include "trainer/mlp.hpp"

#include <algorithm>

#include "trainer/dense.hpp"

namespace dgap::trainer {

template <class Real>
MlpPass<Real>::MlpPass(const NetworkShape& shape, std::int64_t width, int max_segments)
    : shape_(&shape), segments_{0, width, stride_for(width * max_segments)} {
  const auto& layers = shape.layers();
  const std::int64_t stride = segments_.stride;
  shared_inputs_.resize(static_cast<std::size_t>(max_segments) * shape.shared());
  starts_.resize(static_cast<std::size_t>(max_segments) * layers.front().outputs);
  int widest = shape.own();
  values_.emplace_back(shape.own() * stride);
  for (const LayerSlots& layer : layers) {
    values_.emplace_back(layer.outputs * stride);
    slopes_.emplace_back(&layer == &layers.front() ? 0 : layer.inputs * stride);
    widest = std::max(widest, layer.outputs);
  }
  sums_.resize(static_cast<std::size_t>(widest));
  upstream_.resize(widest * stride);
  downstream_.resize(widest * stride);
}

template <class Real>
const Real* MlpPass<Real>::forward(const Real* parameters, int segments) {
  const auto& layers = shape_->layers();
  segments_.count = segments;
  first_layer_forward(*shape_, parameters, shared_inputs_.data(), values_[0].data(), starts_.data(),
                      values_[1].data(), segments_);
  for (std::size_t i = 1; i < layers.size(); ++i) {
    activate(layers[i].inputs, values_[i].data(), slopes_[i].data(), segments_.columns(),
             segments_.stride);
    layer_forward(layers[i], parameters, values_[i].data(), values_[i + 1].data(), segments_);
  }
  return values_.back().data();
}

template <class Real>
void MlpPass<Real>::backward(const Real* parameters, const Real* upstream, Real* gradient) {
  const auto& layers = shape_->layers();
  const Real* up = upstream;
  for (std::size_t i = layers.size() - 1; i > 0; --i) {
    layer_backward(layers[i], parameters, values_[i].data(), up, downstream_.data(), sums_.data(),
                   gradient, segments_);
    scale_by(layers[i].inputs, slopes_[i].data(), downstream_.data(), segments_.columns(),
             segments_.stride);
    upstream_.swap(downstream_);
    up = upstream_.data();
  }
  first_layer_backward(*shape_, shared_inputs_.data(), values_[0].data(), up, sums_.data(),
                       gradient, segments_);
}

template class MlpPass<float>;
template class MlpPass<double>;

}  // namespace dgap::trainer
