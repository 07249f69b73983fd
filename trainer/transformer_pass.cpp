#include "trainer/transformer_pass.hpp"

#include <algorithm>

#include "runtime/transformer.hpp"
#include "trainer/attention.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {

using runtime::BlockLayer;

template <class Real>
TransformerPass<Real>::TransformerPass(const NetworkShape& shape, std::int64_t width,
                                       int max_segments)
    : shape_(&shape),
      model_width_(shape.layers().front().outputs),
      head_width_(model_width_ / shape.heads()),
      segments_{0, width, stride_for(width * max_segments)} {
  const std::size_t stride = static_cast<std::size_t>(segments_.stride);
  const auto matrix = [&](int rows) { return std::vector<Real>(rows * stride); };
  shared_inputs_.resize(static_cast<std::size_t>(max_segments) * shape.shared());
  own_inputs_ = matrix(shape.own());
  starts_.resize(static_cast<std::size_t>(max_segments) * model_width_);
  int widest = 3 * model_width_;
  for (int b = 0; b < shape.blocks(); ++b) {
    const int hidden = shape.layer(b, BlockLayer::up).outputs;
    widest = std::max(widest, hidden);
    blocks_.push_back({matrix(model_width_), matrix(model_width_), matrix(3 * model_width_),
                       matrix(model_width_), matrix(hidden), matrix(hidden),
                       matrix(shape.heads() * static_cast<int>(width))});
  }
  sums_.resize(static_cast<std::size_t>(widest));
  out_ = matrix(model_width_), output_ = matrix(1);
  up_ = matrix(model_width_), down_ = matrix(model_width_), wide_ = matrix(widest);
  scores_ = matrix(static_cast<int>(width));
}

template <class Real>
template <class F>
void TransformerPass<Real>::for_each_head(const F& f) const {
  for (int s = 0; s < segments_.count; ++s) {
    for (int h = 0; h < shape_->heads(); ++h) {
      const std::int64_t row = std::int64_t{h} * head_width_;
      const std::int64_t at = row * segments_.stride + s * segments_.width;
      const std::int64_t shares = h * segments_.width * segments_.stride + s * segments_.width;
      f(HeadShape{head_width_, sizes_[s], segments_.width, segments_.stride}, at, shares);
    }
  }
}

template <class Real>
const Real* TransformerPass<Real>::forward(const Real* parameters,
                                           std::span<const std::int32_t> sizes) {
  sizes_.assign(sizes.begin(), sizes.end());
  segments_.count = static_cast<int>(sizes.size());
  const std::int64_t key = model_width_ * segments_.stride;  // from q to k, and from k to v
  Real* const first = blocks_.front().in.data();
  first_layer_forward(*shape_, parameters, shared_inputs_.data(), own_inputs_.data(),
                      starts_.data(), first, segments_);
  for (int b = 0; b < shape_->blocks(); ++b) {
    Block& block = blocks_[b];
    const auto apply = [&](BlockLayer layer, const std::vector<Real>& x, Real* y) {
      layer_forward(shape_->layer(b, layer), parameters, x.data(), y, segments_);
    };
    apply(BlockLayer::qkv, block.in, block.qkv.data());
    for_each_head([&](const HeadShape& head, std::int64_t at, std::int64_t shares) {
      const Real* const q = block.qkv.data() + at;
      attend(head, q, q + key, q + 2 * key, block.shares.data() + shares,
             block.attended.data() + at);
    });
    apply(BlockLayer::o, block.attended, wide_.data());
    add(model_width_, block.in.data(), wide_.data(), block.between.data(), segments_.columns(),
        segments_.stride);
    apply(BlockLayer::up, block.between, block.hidden.data());
    activate(shape_->layer(b, BlockLayer::up).outputs, block.hidden.data(), block.slope.data(),
             segments_.columns(), segments_.stride);
    apply(BlockLayer::down, block.hidden, wide_.data());
    const bool last = b + 1 == shape_->blocks();
    add(model_width_, block.between.data(), wide_.data(),
        last ? out_.data() : blocks_[b + 1].in.data(), segments_.columns(), segments_.stride);
  }
  layer_forward(shape_->layers().back(), parameters, out_.data(), output_.data(), segments_);
  return output_.data();
}

template <class Real>
void TransformerPass<Real>::backward(const Real* parameters, const Real* upstream, Real* gradient) {
  const std::int64_t key = model_width_ * segments_.stride;
  const std::int64_t columns = segments_.columns(), stride = segments_.stride;
  const auto reverse = [&](const LayerSlots& layer, const Real* x, const Real* up, Real* down) {
    layer_backward(layer, parameters, x, up, down, sums_.data(), gradient, segments_);
  };
  reverse(shape_->layers().back(), out_.data(), upstream, up_.data());
  for (int b = shape_->blocks() - 1; b >= 0; --b) {
    Block& block = blocks_[b];
    const LayerSlots& up_layer = shape_->layer(b, BlockLayer::up);
    reverse(shape_->layer(b, BlockLayer::down), block.hidden.data(), up_.data(), wide_.data());
    scale_by(up_layer.outputs, block.slope.data(), wide_.data(), columns, stride);
    reverse(up_layer, block.between.data(), wide_.data(), down_.data());
    add(model_width_, up_.data(), down_.data(), up_.data(), columns, stride);

    reverse(shape_->layer(b, BlockLayer::o), block.attended.data(), up_.data(), down_.data());
    for_each_head([&](const HeadShape& head, std::int64_t at, std::int64_t shares) {
      const Real* const q = block.qkv.data() + at;
      Real* const dq = wide_.data() + at;
      attend_backward(head, q, q + key, q + 2 * key, block.shares.data() + shares,
                      down_.data() + at, scores_.data(), dq, dq + key, dq + 2 * key);
    });
    reverse(shape_->layer(b, BlockLayer::qkv), block.in.data(), wide_.data(), down_.data());
    add(model_width_, up_.data(), down_.data(), up_.data(), columns, stride);
  }
  first_layer_backward(*shape_, shared_inputs_.data(), own_inputs_.data(), up_.data(), sums_.data(),
                       gradient, segments_);
}

template class TransformerPass<float>;
template class TransformerPass<double>;

}  // namespace dgap::trainer
