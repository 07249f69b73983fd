#pragma once
#include <vector>

#include "trainer/row_layer.hpp"

namespace dgap::trainer {

/// Forward and reverse pass of a feed-forward NetworkShape over rows of samples that have the
/// shared inputs in common, with the buffers they need. In double precision it exists for gradient
/// checks.
template <class Real>
class MlpPass {
 public:
  /// padded: outputs are padded also where there is only one.
  MlpPass(const NetworkShape& shape, std::int64_t max_rows, bool padded = false);

  /// Standardised inputs, to be filled before forward(): [shared], and [max_rows, own_stride()]
  /// whose padding stays 0.
  Real* shared_inputs() { return shared_inputs_.data(); }
  Real* own_inputs() { return values_.front().data(); }
  std::int64_t own_stride() const { return layers_.front().input_stride(); }
  /// From one row of outputs to the next: 1, or a multiple of base::kLanes.
  std::int64_t output_stride() const { return layers_.back().output_stride(); }

  /// Parameters of what follows; forgets gathered gradients.
  void begin(const Real* parameters);
  /// Outputs [rows, output_stride()].
  const Real* forward(std::int64_t rows);
  /// Gathers the gradient of sum_r upstream[r] y[r] of the last forward(); `upstream` is laid out
  /// like the outputs, 0 in its padding.
  void backward(const Real* upstream);
  /// Adds what was gathered to `gradient`, laid out like the parameters.
  void add_gradient(Real* gradient) const;

 private:
  std::vector<RowLayer<Real>> layers_;
  std::vector<Real> shared_inputs_;
  std::vector<std::vector<Real>> values_;  // values_[i]: inputs of layer i; the last: the output
  std::vector<std::vector<Real>> slopes_;  // slopes_[i]: of the activation before layer i
  std::vector<Real> upstream_, downstream_;
  std::int64_t rows_ = 0;
};

extern template class MlpPass<float>;
extern template class MlpPass<double>;

}  // namespace dgap::trainer
