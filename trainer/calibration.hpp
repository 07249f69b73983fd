#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "schemas/bundle/bundle.hpp"

namespace dgap::trainer {

/// Platt's scaling, temperature 1 / scale with a bias: the least cross-entropy of `labels` given
/// `outputs`, by Newton's method with labels pulled towards 1/2 by one pseudo-step per class (Platt
/// 1999; Lin, Lin and Weng 2007). The identity where a class is missing, or where outputs and
/// labels do not go together, so that no positive scale is best:
/// with scale > 0 the order of steps, and with it every choice of tau, stays.
schemas::RiskScale calibrate(std::span<const float> outputs, std::span<const std::uint8_t> labels);

/// Puts it into the last of `layers` layers at `prefix`: what is served has it with no step of its
/// own.
void fold(const schemas::RiskScale& calibration, const std::string& prefix, int layers,
          schemas::Tensors& tensors);

}  // namespace dgap::trainer
