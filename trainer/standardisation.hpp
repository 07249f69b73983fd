#pragma once
#include <vector>

#include "trainer/samples.hpp"

namespace dgap::trainer {

/// Mean and 1 / deviation over the steps (features), over all candidates (candidate features) and
/// over the steps again (hidden states, where they are taken): [kDetectorWidth +
/// samples.own_inputs() + samples.hidden_width()]. Constant ones have scale 0.
struct Standardisation {
  std::vector<float> mean, scale;
};
Standardisation standardisation(const Samples& samples);

}  // namespace dgap::trainer
