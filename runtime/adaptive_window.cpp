#include "base/exp.hpp"
#include "runtime/adaptive_window.hpp"

namespace dgap::runtime {

std::int64_t adaptive_window(std::span<const float> logits, double lse, double mass) {
  const auto most = static_cast<std::int64_t>(logits.size());
  if (mass >= 1.0) return most;
  double held = 0.0;
  for (std::int64_t k = 0; k < most; ++k) {
    held += base::exp_f64(static_cast<double>(logits[k]) - lse);
    if (held >= mass) return k + 1;
  }
  return most;
}

}  // namespace dgap::runtime
