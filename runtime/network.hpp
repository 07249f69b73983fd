#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/activation.hpp"
#include "schemas/bundle/bundle.hpp"

/// The small feed-forward networks of detector and corrector: standardise the inputs, then layers
/// of y = b + sum_i x_i W[i] (i ascending, fused products, outputs vectorised: no sum across lanes,
/// so the same bits everywhere), GELU in tanh form (own exp) between layers.
namespace dgap::runtime {

class Network {
 public:
  Network() = default;
  /// From tensors <prefix>.mean, .scale (1/deviation; 0 for a constant feature) [in] and
  /// <prefix>.<i>.weight [out, in], <prefix>.<i>.bias [out], i < layers. Checks shapes; IoError.
  Network(const schemas::Tensors& tensors, const std::string& prefix, int layers, int inputs,
          int outputs);

  int inputs() const { return inputs_; }
  int outputs() const { return outputs_; }
  std::span<const float> mean() const { return mean_; }
  /// Floats of scratch that forward needs.
  std::size_t scratch_floats() const;

  /// rows x [inputs] -> rows x [outputs]. When `shared` is not empty, every row's input is
  /// (shared, row): the first layer's sum over `shared` (the first inputs) is made once.
  void forward(std::span<const float> shared, const float* rows, std::int64_t count, float* out,
               float* scratch) const;

 private:
  struct Layer {
    int inputs = 0, outputs = 0, stride = 0;  // stride = outputs padded
    std::vector<float> weights;               // [inputs, stride]
    std::vector<float> bias;                  // [stride]
  };
  std::size_t widest() const;  // of the layers, padded

  int inputs_ = 0, outputs_ = 0;
  std::vector<float> mean_, scale_;
  std::vector<Layer> layers_;
};

}  // namespace dgap::runtime
