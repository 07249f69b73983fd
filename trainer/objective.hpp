#pragma once
#include <cstdint>
#include <span>

namespace dgap::trainer {

/// Steps that one task works on, and whose gradients are summed first. Fixed, so that sums have one
/// order whatever the thread count.
inline constexpr int kChunk = 16;

/// A loss that is a sum over decode steps. Real: float to train, double to check gradients.
template <class Real>
class Objective {
 public:
  virtual ~Objective() = default;
  /// Sum of the losses of `steps` (at most kChunk indices into the samples). Unless `gradient` is
  /// null, adds the sum's gradient to it. Callable from several threads at once.
  virtual double chunk(std::span<const std::int32_t> steps, const Real* parameters,
                       Real* gradient) const = 0;
};

}  // namespace dgap::trainer
