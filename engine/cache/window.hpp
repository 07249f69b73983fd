#pragma once
#include <algorithm>
#include <cstdint>

#include "schemas/scheme/scheme.hpp"

namespace dgap::engine {

/// Which tokens of one tensor are exact, beyond the sinks: docs/schemes.md "Residual window".
class Window {
 public:
  /// Nothing is ever quantised.
  Window() = default;
  /// `prefix`: tokens that are there when quantisation begins.
  Window(const schemas::TensorScheme& tensor, int residual_window, std::int64_t sinks,
         std::int64_t prefix);

  /// A row at `position` sees the tokens from here on exactly; non-decreasing.
  std::int64_t exact_begin(std::int64_t position) const {
    if (step_ == 0) return 0;
    const std::int64_t leaving = std::max<std::int64_t>(position + 1 - kept_ - sinks_, 0);
    return sinks_ + leaving / step_ * step_;
  }
  /// With `tokens` tokens, and all their rows attended, those of [sinks, here) are codes. At least
  /// exact_begin(tokens - 1).
  std::int64_t quantised_end(std::int64_t tokens) const { return exact_begin(tokens - 1 + lag_); }

  /// Tokens after `tokens` until the next ones leave.
  std::int64_t until_leave(std::int64_t tokens) const {
    return step_ - std::max<std::int64_t>(tokens - sinks_, 0) % step_;
  }

  bool operator==(const Window&) const = default;

 private:
  std::int64_t sinks_ = 0;  // no tokens before here ever count; requantize: the prefix
  std::int64_t kept_ = 0;  // tokens that are exact to a row at least, its own included
  std::int64_t step_ = 0;  // tokens that leave together
  std::int64_t lag_ = 0;   // 1 where tokens leave after a row's attention, 0 where before
};

inline Window::Window(const schemas::TensorScheme& tensor, int residual_window, std::int64_t sinks,
                      std::int64_t prefix)
    : sinks_(sinks) {
  using schemas::WindowRule;
  if (tensor.quantizer == schemas::Quantizer::exact) return;
  step_ = schemas::tokens_per_step(tensor);
  switch (tensor.window) {
    case WindowRule::sliding:
      kept_ = std::max(residual_window, 1);
      break;
    case WindowRule::lagging:
      kept_ = residual_window + 1;
      lag_ = 1;
      break;
    case WindowRule::flush:
      kept_ = 1;
      step_ = std::max(residual_window, 1);
      lag_ = 1;
      break;
    case WindowRule::requantize:
      sinks_ = prefix;
      kept_ = 1;
      step_ = std::max(residual_window, 1);
      lag_ = 1;
      break;
    case WindowRule::none:
      break;
  }
}

}  // namespace dgap::engine
