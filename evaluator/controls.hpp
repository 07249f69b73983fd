#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "statistics/window.hpp"

/// Edits of a window that tell what a corrector's figures are worth (docs/metrics.md). `edited` [K]
/// holds the edited logits in the window's order; reused, nothing is allocated.
namespace dgap::evaluator {

/// The reference's values in the quantised decode's order, mass aligned.
void quantized_ranking(const statistics::StepWindow& window, std::span<float> edited);

/// One offset on all logits of the row, as f32 arithmetic leaves them: a no-op but for rounding.
/// The tail's shift is taken back exactly, so `edited` is to be judged in the unshifted row.
void shift(const statistics::StepWindow& window, float offset, std::span<float> edited);

/// The reference's logits with Gaussian noise whose deviation is that of z_q - z_fp over the
/// window, and the same values sorted back into the reference's order, which they then preserve;
/// both mass aligned.
class Noise {
 public:
  void draw(const statistics::StepWindow& window, base::Random& random, std::span<float> noisy,
            std::span<float> resorted);

 private:
  std::vector<std::int32_t> order_;  // of the reference
  std::vector<float> sorted_;
};

}  // namespace dgap::evaluator
