#pragma once
#include <cstdint>

#include "runtime/row.hpp"

/// Sums of exponentials over a row. Private to runtime/.
namespace dgap::runtime {

/// Sums of exp(d) and of exp(d) d, d = z - top.
struct ExponentialSums {
  double e = 0.0, ed = 0.0;
};

/// Over the logits below `bound`: exponentials in f32, relative error some 1e-7 of the sums, which
/// is what they are for: the many that weigh little. NaN where a logit is NaN. -inf counts 0.
ExponentialSums tail_sums(const Row& logits, float top, float bound);

/// Over logits that are given one by one, in f64. Sums depend on the logits' order alone.
class HeadSums {
 public:
  explicit HeadSums(float top) : top_(top) {}
  void add(float logit) {
    logits_[count_++] = logit;
    if (count_ == kAtOnce) flush();
  }
  /// Of all that were added, and `more`.
  ExponentialSums with(const ExponentialSums& more);

 private:
  static constexpr int kAtOnce = 256;
  void flush();

  float top_;
  int count_ = 0;
  float logits_[kAtOnce];
  ExponentialSums sums_;
};

}  // namespace dgap::runtime
