#include "runtime/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "runtime/activation.hpp"
#include "runtime/columns.hpp"
#include "runtime/tensor_of.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;

constexpr std::int64_t kAttended = 2 * kLanes;  // candidates whose shares are held at a time

/// One layer's arrays, as the kernels take them; `start` null: bias.
struct View {
  const float *weight, *start;
  int step, inputs, outputs;  // step: from one output's weights to the next
};

DGAP_MULTIVERSION void dense(View layer, const float* x, float* y, std::int64_t columns) {
  columns::multiply<float>({layer.step, 1, layer.outputs, layer.inputs}, layer.weight, layer.start,
                           x, y, columns, columns);
}

DGAP_MULTIVERSION void sum_shared(Weights shape, const float* w, const float* bias, const float* x,
                                  float* start) {
  columns::sum_shared(shape, w, bias, x, start);
}

DGAP_MULTIVERSION void gelu_all(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = gelu(x[i]);
}

DGAP_MULTIVERSION void add_all(int width, const float* from, float* to, std::int64_t columns) {
  columns::add(width, to, from, to, columns, columns);
}

/// qkv: [3 width, columns], heads of width / heads each.
DGAP_MULTIVERSION void attend_all(int heads, int width, int count, const float* qkv,
                                  std::int64_t columns, float* shares, float* out) {
  const int each = width / heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(each));
  for (int h = 0; h < heads; ++h) {
    const float* const q = qkv + h * each * columns;
    columns::attend(each, count, kAttended, scale, q, q + width * columns, q + 2 * width * columns,
                    columns, shares, kAttended, out + h * each * columns);
  }
}

}  // namespace

Transformer::Transformer(const schemas::Tensors& tensors, const std::string& prefix, int layers,
                         int heads, int inputs)
    : inputs_(inputs),
      heads_(heads),
      mean_(tensor_of(tensors, prefix + ".mean", {inputs}).data),
      scale_(tensor_of(tensors, prefix + ".scale", {inputs}).data) {
  const auto add = [&](int in, int out) {
    const std::string name = prefix + "." + std::to_string(layers_.size());
    layers_.push_back({in, out, tensor_of(tensors, name + ".weight", {out, in}).data,
                       tensor_of(tensors, name + ".bias", {out}).data});
    widest_ = std::max(widest_, out);
  };
  const auto extent = [&](std::size_t i) {
    return static_cast<int>(extent_of(tensors, prefix + "." + std::to_string(i) + ".bias"));
  };
  width_ = extent(0);
  if (heads < 1 || width_ % heads != 0 || layers < transformer_layers(1) ||
      (layers - 2) % kLayersPerBlock != 0) {
    throw base::IoError("transformer " + prefix + ": " + std::to_string(layers) + " layers and " +
                        std::to_string(heads) + " heads do not fit a width of " +
                        std::to_string(width_));
  }
  add(inputs, width_);
  while (static_cast<int>(layers_.size()) + 1 < layers) {
    add(width_, 3 * width_);
    add(width_, width_);
    const int hidden = extent(layers_.size());
    add(width_, hidden);
    add(hidden, width_);
  }
  add(width_, 1);
}

// Inputs, the running x, one layer's output (qkv or hidden), what attention gives, its shares.
std::size_t Transformer::scratch_floats(int window) const {
  const auto columns = static_cast<std::size_t>(base::padded_to_lanes(window));
  return static_cast<std::size_t>(inputs_ + width_) +
         columns * static_cast<std::size_t>(inputs_ + 2 * width_ + widest_ + kAttended);
}

void Transformer::forward(std::span<const float> shared, const float* rows, std::int64_t count,
                          float* out, float* scratch) const {
  const int common = static_cast<int>(shared.size()), own = inputs_ - common;
  const std::int64_t columns = base::padded_to_lanes(count);
  float* const start = scratch;
  float* const phi = start + width_;
  float* const inputs = phi + inputs_;
  float* const x = inputs + inputs_ * columns;
  float* const wide = x + width_ * columns;
  float* const narrow = wide + widest_ * columns;
  float* const shares = narrow + width_ * columns;

  for (int i = 0; i < common; ++i) phi[i] = (shared[i] - mean_[i]) * scale_[i];
  const Layer& first = layers_.front();
  sum_shared({inputs_, 1, width_, common}, first.weight.data(), first.bias.data(), phi, start);
  for (int i = 0; i < own; ++i) {
    float* const row = inputs + i * columns;
    const float mean = mean_[common + i], scale = scale_[common + i];
    for (std::int64_t c = 0; c < count; ++c) row[c] = (rows[c * own + i] - mean) * scale;
    std::fill(row + count, row + columns, 0.0f);
  }
  dense({first.weight.data() + common, start, inputs_, own, width_}, inputs, x, columns);
  const auto apply = [&](const Layer& layer, const float* from, float* to) {
    dense({layer.weight.data(), layer.bias.data(), layer.inputs, layer.inputs, layer.outputs}, from,
          to, columns);
  };
  for (int b = 0; b < blocks(); ++b) {
    apply(layer(b, BlockLayer::qkv), x, wide);
    attend_all(heads_, width_, static_cast<int>(count), wide, columns, shares, narrow);
    apply(layer(b, BlockLayer::o), narrow, wide);
    add_all(width_, wide, x, columns);
    const Layer& up = layer(b, BlockLayer::up);
    apply(up, x, wide);
    gelu_all(wide, up.outputs * columns);
    apply(layer(b, BlockLayer::down), wide, narrow);
    add_all(width_, narrow, x, columns);
  }
  apply(layers_.back(), x, wide);
  std::copy_n(wide, count, out);
}

}  // namespace dgap::runtime
