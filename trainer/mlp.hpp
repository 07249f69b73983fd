#pragma once
#include <span>
#include <vector>

#include "trainer/layers.hpp"

namespace dgap::trainer {

/// Forward and reverse pass of a feed-forward NetworkShape over segments of samples, with the
/// buffers they need. Samples of segment s are columns [s * width, (s + 1) * width) of matrices
/// with stride(). In double precision it exists for gradient checks.
template <class Real>
class MlpPass {
 public:
  /// width: samples of a segment, a multiple of base::kLanes.
  MlpPass(const NetworkShape& shape, std::int64_t width, int max_segments);

  std::int64_t width() const { return segments_.width; }
  std::int64_t stride() const { return segments_.stride; }
  /// Standardised inputs, to be filled before forward: [max_segments, shared] and [own, stride].
  Real* shared_inputs() { return shared_inputs_.data(); }
  Real* own_inputs() { return values_.front().data(); }

  /// Outputs [outputs, stride()], of `segments` segments.
  const Real* forward(const Real* parameters, int segments);
  /// The same, as TransformerPass has it: columns do not see each other, so sizes do not matter.
  const Real* forward(const Real* parameters, std::span<const std::int32_t> sizes) {
    return forward(parameters, static_cast<int>(sizes.size()));
  }
  /// Adds the gradient of sum_r upstream[r] y[r] to `gradient`, laid out like the parameters.
  /// `upstream` [outputs, stride()] belongs to the last forward().
  void backward(const Real* parameters, const Real* upstream, Real* gradient);

 private:
  const NetworkShape* shape_;
  Segments segments_;
  std::vector<Real> shared_inputs_, starts_, sums_;
  std::vector<std::vector<Real>> values_;  // values_[i]: inputs of layer i; the last: the output
  std::vector<std::vector<Real>>
      slopes_;  // slopes_[i]: derivative of the activation before layer i
  std::vector<Real> upstream_, downstream_;
};

extern template class MlpPass<float>;
extern template class MlpPass<double>;

}  // namespace dgap::trainer
