#pragma once
#include <vector>

#include "trainer/samples.hpp"

namespace dgap::trainer {

/// Mean and 1 / deviation over the steps (features) and over all candidates (candidate features):
/// [kDetectorWidth + samples.own_inputs()], the shape network's order. Constant features have scale
/// 0.
struct Standardisation {
  std::vector<float> mean, scale;
};
Standardisation standardisation(const Samples& samples);

}  // namespace dgap::trainer
