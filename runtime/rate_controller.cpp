#include "runtime/rate_controller.hpp"

#include <algorithm>

namespace dgap::runtime {

RateController::RateController(double tau, double rate, double step, double low, double high)
    : tau_(std::clamp(tau, low, high)), rate_(rate), step_(step), low_(low), high_(high) {}

void RateController::observe(bool corrected) {
  tau_ = std::clamp(tau_ + step_ * ((corrected ? 1.0 : 0.0) - rate_), low_, high_);
}

}  // namespace dgap::runtime
