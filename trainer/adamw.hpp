#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dgap::trainer {

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101) with beta = (.9, .999), eps = 1e-8, as PyTorch
/// defines it. Decay is decoupled and leaves out what `decays` marks 0 (biases).
class AdamW {
 public:
  /// decays [parameters]: 1 where weight decay applies.
  AdamW(std::vector<float> decays, double weight_decay);
  void step(std::span<float> parameters, std::span<const float> gradient, double learning_rate);

 private:
  std::vector<float> decays_, mean_, square_;
  double weight_decay_;
  double mean_decay_ = 1.0, square_decay_ = 1.0;  // beta^t
};

/// Euclidean norm, f64 sums in one order.
double norm(std::span<const float> values);

/// Scales `gradient` down to `limit` when its norm is above it.
void clip(std::span<float> gradient, double gradient_norm, double limit);

/// Linear warm-up over the first twentieth of the updates, then half a cosine down to 0.
double scheduled_rate(double peak, std::int64_t update, std::int64_t updates);

}  // namespace dgap::trainer
