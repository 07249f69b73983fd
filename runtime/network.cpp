#include "runtime/network.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "runtime/rows.hpp"
#include "runtime/tensor_of.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;

constexpr int kRows = 8;  // rows that share one read of the weights

/// To what the kernel of rows takes at a time: half of it takes longer.
int padded(int n) { return (n + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes); }

DGAP_MULTIVERSION void multiply(const RowsProduct<float>& product, std::int64_t rows) {
  rows::multiply(product, rows);
}

DGAP_MULTIVERSION void gelu_all(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = gelu(x[i]);
}

DGAP_MULTIVERSION void standardise(const float* x, const float* mean, const float* scale, int n,
                                   float* out) {
  for (int i = 0; i < n; ++i) out[i] = (x[i] - mean[i]) * scale[i];
}

}  // namespace

Network::Network(const schemas::Tensors& tensors, const std::string& prefix, int layers, int inputs,
                 int outputs)
    : inputs_(inputs),
      outputs_(outputs),
      mean_(tensor_of(tensors, prefix + ".mean", {inputs}).data),
      scale_(tensor_of(tensors, prefix + ".scale", {inputs}).data) {
  if (layers < 1) throw base::IoError("network " + prefix + " has no layers");
  for (int i = 0; i < layers; ++i) {
    const std::string name = prefix + "." + std::to_string(i);
    const std::int64_t found = extent_of(tensors, name + ".bias");
    const std::int64_t out = i + 1 < layers ? found : outputs;
    const schemas::Tensor& bias = tensor_of(tensors, name + ".bias", {out});
    const schemas::Tensor& weight = tensor_of(tensors, name + ".weight", {out, inputs});
    Layer& layer = layers_.emplace_back();
    layer.inputs = inputs;
    layer.outputs = static_cast<int>(out);
    layer.stride = padded(layer.outputs);
    layer.weights.assign(static_cast<std::size_t>(inputs) * layer.stride, 0.0f);
    layer.bias.assign(layer.stride, 0.0f);
    std::copy_n(bias.data.begin(), out, layer.bias.begin());
    for (int o = 0; o < layer.outputs; ++o) {
      for (int k = 0; k < inputs; ++k) {
        layer.weights[static_cast<std::size_t>(k) * layer.stride + o] =
            weight.data[static_cast<std::size_t>(o) * inputs + k];
      }
    }
    inputs = layer.outputs;
  }
}

std::size_t Network::widest() const {
  std::size_t widest = 0;
  for (const Layer& layer : layers_) widest = std::max(widest, layer.bias.size());
  return widest;
}

// Per block of rows: standardised inputs, two buffers of activations; once: the shared sum.
std::size_t Network::scratch_floats() const {
  return static_cast<std::size_t>(kRows + 1) * inputs_ + (2 * kRows + 1) * widest();
}

void Network::forward(std::span<const float> shared, const float* rows, std::int64_t count,
                      float* out, float* scratch) const {
  const int common = static_cast<int>(shared.size());
  const int own = inputs_ - common;
  const std::size_t widest = this->widest();
  const Layer& first = layers_.front();
  float* const x = scratch + inputs_;
  float* const start = x + static_cast<std::size_t>(kRows) * inputs_;
  float* current = start + widest;
  float* next = current + kRows * widest;

  const auto apply = [](const Layer& layer, int first_input, int inputs, int samples,
                        const float* in, int in_stride, const float* from, float* to) {
    multiply({inputs, layer.stride, in, in_stride, 1,
              layer.weights.data() + static_cast<std::size_t>(first_input) * layer.stride,
              layer.stride, from, 0, to, layer.stride},
             samples);
  };
  standardise(shared.data(), mean_.data(), scale_.data(), common, scratch);
  apply(first, 0, common, 1, scratch, common, first.bias.data(), start);
  for (std::int64_t begin = 0; begin < count; begin += kRows) {
    const int block = static_cast<int>(std::min<std::int64_t>(kRows, count - begin));
    for (int r = 0; r < block; ++r) {
      standardise(rows + (begin + r) * own, mean_.data() + common, scale_.data() + common, own,
                  x + static_cast<std::int64_t>(r) * own);
    }
    apply(first, common, own, block, x, own, start, current);
    for (std::size_t i = 1; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const int stride = layers_[i - 1].stride;
      gelu_all(current, static_cast<std::int64_t>(block) * stride);
      apply(layer, 0, layer.inputs, block, current, stride, layer.bias.data(), next);
      std::swap(current, next);
    }
    const Layer& last = layers_.back();
    for (int r = 0; r < block; ++r) {
      std::copy_n(current + static_cast<std::int64_t>(r) * last.stride, outputs_,
                  out + (begin + r) * outputs_);
    }
  }
}

}  // namespace dgap::runtime
