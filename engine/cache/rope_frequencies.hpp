#pragma once
#include <cstdint>
#include <vector>

#include "engine/model/rope_parameters.hpp"

namespace dgap::engine {

/// Angle per position of each pair of channels, [head_dim / 2], f64. Unscaled (arXiv:2104.09864):
/// theta^(-2 i / head_dim). Scalings, as `transformers` defines them:
///   linear   divided by factor
///   dynamic  theta * (factor * n / original - (factor - 1))^(d / (d - 2)) in place of theta, where
///            n = max(length, original); the others do not depend on `length`
///   llama3   wavelengths above original / low_freq_factor divided by factor, those below
///            original / high_freq_factor unchanged, linear in 1 / wavelength between
///   yarn     arXiv:2309.00071: channels that turn more than beta_fast times in `original`
///   positions
///            unchanged, less than beta_slow times divided by factor, a linear ramp between
std::vector<double> rope_frequencies(const RopeParameters& rope, int head_dim, std::int64_t length);

/// Factor of cosines and sines: for yarn attention_factor, or what arXiv:2309.00071 proposes
/// (0.1 ln factor + 1); 1 otherwise.
double rope_attention_factor(const RopeParameters& rope);

}  // namespace dgap::engine
