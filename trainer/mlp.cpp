#include "trainer/mlp.hpp"

#include <algorithm>

#include "trainer/dense.hpp"

namespace dgap::trainer {

template <class Real>
MlpPass<Real>::MlpPass(const NetworkShape& shape, std::int64_t max_rows, bool padded)
    : shared_inputs_(shape.shared()) {
  const auto& layers = shape.layers();
  std::int64_t widest = 0;
  for (const LayerSlots& slots : layers) {
    const bool first = &slots == &layers.front(), last = &slots == &layers.back();
    layers_.emplace_back(slots, first ? shape.shared() : 0, padded || !last);
    const std::int64_t width = layers_.back().input_stride();
    values_.emplace_back(max_rows * width);
    slopes_.emplace_back(first ? 0 : max_rows * width);
    if (!first) widest = std::max(widest, width);
  }
  values_.emplace_back(max_rows * output_stride());
  upstream_.resize(max_rows * widest);
  downstream_.resize(max_rows * widest);
}

template <class Real>
void MlpPass<Real>::begin(const Real* parameters) {
  for (RowLayer<Real>& layer : layers_) layer.begin(parameters);
}

template <class Real>
const Real* MlpPass<Real>::forward(std::int64_t rows) {
  rows_ = rows;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) {
      activate(1, values_[i].data(), slopes_[i].data(), rows * layers_[i].input_stride(), 0);
    }
    layers_[i].forward(shared_inputs_.data(), values_[i].data(), values_[i + 1].data(), rows);
  }
  return values_.back().data();
}

template <class Real>
void MlpPass<Real>::backward(const Real* upstream) {
  for (std::size_t i = layers_.size() - 1; i > 0; --i) {
    layers_[i].backward(nullptr, values_[i].data(), upstream, downstream_.data(), rows_);
    scale_by(1, slopes_[i].data(), downstream_.data(), rows_ * layers_[i].input_stride(), 0);
    upstream_.swap(downstream_);
    upstream = upstream_.data();
  }
  layers_[0].backward(shared_inputs_.data(), values_[0].data(), upstream, nullptr, rows_);
}

template <class Real>
void MlpPass<Real>::add_gradient(Real* gradient) const {
  for (const RowLayer<Real>& layer : layers_) layer.add_gradient(gradient);
}

template class MlpPass<float>;
template class MlpPass<double>;

}  // namespace dgap::trainer
