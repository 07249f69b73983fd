#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"

/// Self-attention over the candidates of a window: x = in(shared, own); per block x += o(heads of
/// attention over qkv(x)), x += down(gelu(up(x))); out(x). No normalisation: windows are
/// standardised at the input, and blocks are few.
namespace dgap::runtime {

/// Places of a transformer's layers: 0 = in, four per block, the last = out.
inline constexpr int kLayersPerBlock = 4;
enum class BlockLayer { qkv, o, up, down };
inline constexpr int transformer_layers(int blocks) { return 2 + kLayersPerBlock * blocks; }

class Transformer {
 public:
  Transformer() = default;
  /// From <prefix>.mean, .scale [in] and <prefix>.<i>.weight [out, in], .bias [out], i < layers.
  /// IoError where shapes do not fit.
  Transformer(const schemas::Tensors& tensors, const std::string& prefix, int layers, int heads,
              int inputs);

  std::size_t scratch_floats(int window) const;
  /// One window: rows [count, inputs - shared] row-major -> out [count]. Every row's input is
  /// (shared, row). Bits are those of the trainer's forward pass.
  void forward(std::span<const float> shared, const float* rows, std::int64_t count, float* out,
               float* scratch) const;

 private:
  struct Layer {
    int inputs = 0, outputs = 0;
    std::vector<float> weight, bias;  // [outputs, inputs], [outputs]
  };
  const Layer& layer(int block, BlockLayer which) const {
    return layers_[1 + block * kLayersPerBlock + static_cast<int>(which)];
  }
  int blocks() const { return (static_cast<int>(layers_.size()) - 2) / kLayersPerBlock; }

  int inputs_ = 0, heads_ = 1, width_ = 0, widest_ = 0;
  std::vector<float> mean_, scale_;
  std::vector<Layer> layers_;
};

}  // namespace dgap::runtime
