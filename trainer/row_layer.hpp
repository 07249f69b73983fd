#pragma once
#include <cstdint>
#include <vector>

#include "trainer/network_shape.hpp"

namespace dgap::trainer {

/// One dense layer, forward and reverse, over matrices with one row per sample, as runtime::Network
/// computes it and with its bits. Sums run over samples or along a row, never across lanes; the
/// gradient is gathered over any number of groups of rows, then added once.
template <class Real>
class RowLayer {
 public:
  /// The first `shared` inputs are one vector for all rows of a call. padded_output: outputs are
  /// padded also where there is only one.
  RowLayer(const LayerSlots& slots, int shared, bool padded_output);

  /// From one row of the other inputs to the next, padded with zeros to base::kLanes.
  std::int64_t input_stride() const { return input_stride_; }
  /// From one row of outputs to the next: 1, or padded likewise.
  std::int64_t output_stride() const { return output_stride_; }

  /// Lays out the weights for what follows and forgets the gathered gradient.
  void begin(const Real* parameters);
  /// y [rows, output_stride] = b + W (shared, x), x [rows, input_stride].
  void forward(const Real* shared, const Real* x, Real* y, std::int64_t rows);
  /// Gathers the gradient that `up` [rows, output_stride], zeros in its padding, gives. Sets `down`
  /// [rows, input_stride], unless null, to that of x; only where no input is shared.
  void backward(const Real* shared, const Real* x, const Real* up, Real* down, std::int64_t rows);
  /// Adds what was gathered to `gradient`, laid out like the parameters.
  void add_gradient(Real* gradient) const;

 private:
  bool single() const { return output_stride_ == 1; }
  void gather_weights(const Real* x, const Real* up, std::int64_t rows);

  LayerSlots slots_;
  int shared_, own_;
  std::int64_t input_stride_, output_stride_;
  std::vector<Real> weight_;               // [inputs, output_stride]
  std::vector<Real> transposed_;           // [outputs, input_stride], where no input is shared
  std::vector<Real> bias_, start_, sums_;  // [output_stride]
  // Gathered: [shared, output_stride]; [own, output_stride], of a single output [input_stride].
  std::vector<Real> shared_gradient_, own_gradient_, bias_gradient_;
};

extern template class RowLayer<float>;
extern template class RowLayer<double>;

}  // namespace dgap::trainer
