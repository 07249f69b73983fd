#include "runtime/network.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "runtime/tensor_of.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;

constexpr int kRows = 4;  // rows that share one read of the weights

int padded(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// One layer's arrays, as the kernels take them.
struct View {
  const float* weights;  // [inputs, stride]
  int inputs, stride;
};

/// kLanes floats that stay in registers; compilers split them to what the processor has.
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

DGAP_INLINE void load(const float* from, Lanes& lanes) { std::memcpy(&lanes, from, sizeof lanes); }

/// y[r, o] = start[r, o] + sum_i x[r, i] W[i, o], i ascending. Row strides x_stride, start_stride
/// (0: the same start for every row) and layer.stride.
template <int rows>
DGAP_INLINE void accumulate(View layer, const float* x, std::int64_t x_stride, const float* start,
                            std::int64_t start_stride, float* y) {
  for (int o = 0; o < layer.stride; o += kLanes) {
    Lanes sum[rows];
    for (int r = 0; r < rows; ++r) load(start + r * start_stride + o, sum[r]);
    const float* w = layer.weights + o;
    for (int i = 0; i < layer.inputs; ++i, w += layer.stride) {
      Lanes weights;
      load(w, weights);
      for (int r = 0; r < rows; ++r) sum[r] += x[r * x_stride + i] * weights;
    }
    for (int r = 0; r < rows; ++r) std::memcpy(y + r * layer.stride + o, &sum[r], sizeof sum[r]);
  }
}

DGAP_MULTIVERSION void accumulate_rows(View layer, int rows, const float* x, std::int64_t x_stride,
                                       const float* start, std::int64_t start_stride, float* y) {
  if (rows == kRows) {
    accumulate<kRows>(layer, x, x_stride, start, start_stride, y);
    return;
  }
  for (int r = 0; r < rows; ++r) {
    accumulate<1>(layer, x + r * x_stride, x_stride, start + r * start_stride, start_stride,
                  y + static_cast<std::int64_t>(r) * layer.stride);
  }
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

  standardise(shared.data(), mean_.data(), scale_.data(), common, scratch);
  accumulate_rows({first.weights.data(), common, first.stride}, 1, scratch, 0, first.bias.data(), 0,
                  start);
  for (std::int64_t begin = 0; begin < count; begin += kRows) {
    const int block = static_cast<int>(std::min<std::int64_t>(kRows, count - begin));
    for (int r = 0; r < block; ++r) {
      standardise(rows + (begin + r) * own, mean_.data() + common, scale_.data() + common, own,
                  x + static_cast<std::int64_t>(r) * own);
    }
    accumulate_rows(
        {first.weights.data() + static_cast<std::size_t>(common) * first.stride, own, first.stride},
        block, x, own, start, 0, current);
    for (std::size_t i = 1; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const int stride = layers_[i - 1].stride;
      gelu_all(current, static_cast<std::int64_t>(block) * stride);
      accumulate_rows({layer.weights.data(), layer.inputs, layer.stride}, block, current, stride,
                      layer.bias.data(), 0, next);
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
