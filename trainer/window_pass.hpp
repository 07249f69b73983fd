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
  /// From one candidate's inputs to the next, as feed() takes them.
  virtual std::int64_t candidate_stride() const = 0;
  /// Parameters of the calls up to end(), which all add to `gradient`, laid out like them (null
  /// where there is no backward()).
  virtual void begin(const Real* parameters, Real* gradient) = 0;
  /// Inputs of step `slot` of the group, not yet standardised: phi [kDetectorWidth], candidates
  /// [count, candidate_stride()].
  virtual void feed(int slot, const float* phi, const float* candidates, int count) = 0;
  /// Changes of the first `steps` slots: [steps, stride].
  virtual const Real* forward(int steps) = 0;
  /// Gathers the gradient of sum_r upstream[r] change[r] of the last forward(). `upstream` [steps,
  /// stride] is 0 beyond the candidates of a step.
  virtual void backward(const Real* upstream) = 0;
  /// What was gathered is in the gradient.
  virtual void end() = 0;
};

/// `shape` and `standardisation` are referred to. window: candidates at most; stride: from one
/// window to the next, a multiple of base::kLanes.
template <class Real>
std::unique_ptr<WindowPass<Real>> make_window_pass(const CorrectorShape& shape,
                                                   const Standardisation& standardisation,
                                                   int window, std::int64_t stride);

}  // namespace dgap::trainer
