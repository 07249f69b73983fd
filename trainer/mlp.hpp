#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "schemas/bundle/bundle.hpp"

namespace dgap::trainer {

/// Weights of one layer inside a flat vector of parameters: weight [outputs, inputs] at `weight`,
/// bias [outputs] at `bias`.
struct LayerSlots {
  int inputs = 0, outputs = 0;
  std::int64_t weight = 0, bias = 0;
};

/// A feed-forward network with one output, as runtime::Network serves it: the first `shared` inputs
/// are common to all samples of a segment (the features of a decode step), the others are each
/// sample's own. Parameters live in the caller's flat vector from `first` on, so that one optimiser
/// step covers several networks. In double precision it exists for gradient checks.
class MlpShape {
 public:
  /// hidden: widths between inputs and output; empty for a linear model.
  MlpShape(int shared, int own, const std::vector<int>& hidden, std::int64_t first);

  int shared() const { return shared_; }
  int own() const { return own_; }
  std::int64_t first() const { return first_; }
  std::int64_t end() const { return end_; }
  const std::vector<LayerSlots>& layers() const { return layers_; }

  /// Hidden weights uniform with variance 1 / inputs, biases and the whole last layer 0: the
  /// network begins as the constant 0.
  void initialise(std::span<float> parameters, base::Random& random) const;

  /// Sets decays[i] = 1 for weights; leaves biases.
  void mark_weights(std::span<float> decays) const;

  /// Tensors `prefix`.mean, .scale, .<i>.weight, .<i>.bias.
  void store(std::span<const float> parameters, std::span<const float> mean,
             std::span<const float> scale, const std::string& prefix,
             schemas::Tensors& tensors) const;

 private:
  int shared_, own_;
  std::int64_t first_, end_;
  std::vector<LayerSlots> layers_;
};

/// Forward and reverse pass of one MlpShape over segments of samples, with the buffers they need.
/// Samples of segment s are columns [s * width, (s + 1) * width) of matrices with stride().
template <class Real>
class MlpPass {
 public:
  /// width: samples of a segment, a multiple of base::kLanes.
  MlpPass(const MlpShape& shape, std::int64_t width, int max_segments);

  std::int64_t width() const { return width_; }
  std::int64_t stride() const { return stride_; }
  /// Standardised inputs, to be filled before forward: [max_segments, shared] and [own, stride].
  Real* shared_inputs() { return shared_inputs_.data(); }
  Real* own_inputs() { return values_.front().data(); }

  /// Outputs [segments * width].
  const Real* forward(const Real* parameters, int segments);
  /// Adds the gradient of sum_r upstream[r] y[r] to `gradient`, laid out like the parameters.
  /// `upstream` [segments * width] belongs to the last forward().
  void backward(const Real* parameters, const Real* upstream, Real* gradient);

 private:
  void first_layer_starts(const Real* parameters, int segments);

  const MlpShape* shape_;
  std::int64_t width_, stride_;
  int segments_ = 0;
  std::vector<Real> shared_inputs_, starts_, sums_;
  std::vector<std::vector<Real>> values_;  // values_[i]: inputs of layer i; the last: the output
  std::vector<std::vector<Real>>
      slopes_;  // slopes_[i]: derivative of the activation before layer i
  std::vector<Real> upstream_, downstream_;
};

extern template class MlpPass<float>;
extern template class MlpPass<double>;

}  // namespace dgap::trainer
