#pragma once
#include <cstdint>
#include <memory>

#include "trainer/corrector_shape.hpp"

namespace dgap::trainer {

/// Forward and reverse pass of a corrector's shape network over the windows of a group of steps, in
/// whatever form it has, with the buffers that it needs. Windows are `stride` numbers apart.
template <class Real>
class WindowPass {
 public:
  virtual ~WindowPass() = default;
  /// Steps that go through the network together, at most.
  virtual int max_steps() const = 0;
  /// Inputs of step `slot` of the group, not yet standardised: phi [kDetectorWidth], candidates
  /// [count, own inputs] row-major.
  virtual void feed(int slot, const float* phi, const float* candidates, int count) = 0;
  /// Changes of the first `steps` slots: [steps, stride].
  virtual const Real* forward(const Real* parameters, int steps) = 0;
  /// Adds the gradient of sum_r upstream[r] change[r] of the last forward() to `gradient`, laid out
  /// like the parameters. `upstream` [steps, stride] is 0 beyond the candidates of a step.
  virtual void backward(const Real* parameters, const Real* upstream, Real* gradient) = 0;
};

/// `shape` and `standardisation` are referred to. window: candidates at most; stride: from one
/// window to the next, a multiple of base::kLanes.
template <class Real>
std::unique_ptr<WindowPass<Real>> make_window_pass(const CorrectorShape& shape,
                                                   const Standardisation& standardisation,
                                                   int window, std::int64_t stride);

}  // namespace dgap::trainer
