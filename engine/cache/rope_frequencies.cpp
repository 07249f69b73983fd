#include "engine/cache/rope_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dgap::engine {
namespace {

using std::numbers::pi;

/// Attention temperature of YaRN.
double temperature(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double llama3(const RopeParameters& rope, double frequency) {
  const auto original = static_cast<double>(rope.original_context);
  const double wavelength = 2.0 * pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

/// The pairs between which YaRN's ramp runs.
struct Ramp {
  Ramp(const RopeParameters& rope, int head_dim) {
    const auto pair = [&](double turns) {
      return head_dim * std::log(static_cast<double>(rope.original_context) / (turns * 2.0 * pi)) /
             (2.0 * std::log(rope.theta));
    };
    low = pair(rope.beta_fast), high = pair(rope.beta_slow);
    if (rope.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, head_dim - 1.0);
    if (low == high) high += 0.001;
  }
  double at(std::size_t pair) const {
    return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
  double low, high;
};

double base_of(const RopeParameters& rope, int head_dim, std::int64_t length) {
  if (rope.scaling != RopeParameters::Scaling::dynamic) return rope.theta;
  const double ratio = static_cast<double>(std::max(length, rope.original_context)) /
                       static_cast<double>(rope.original_context);
  return rope.theta * std::pow(rope.factor * ratio - (rope.factor - 1.0),
                               static_cast<double>(head_dim) / (head_dim - 2));
}

}  // namespace

std::vector<double> rope_frequencies(const RopeParameters& rope, int head_dim,
                                     std::int64_t length) {
  using Scaling = RopeParameters::Scaling;
  const double base = base_of(rope, head_dim, length);
  const Ramp ramp(rope, head_dim);
  std::vector<double> frequencies(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double& f = frequencies[i];
    f = std::pow(base, -2.0 * static_cast<double>(i) / head_dim);
    if (!rope.divisors.empty()) f /= rope.divisors[i];
    if (rope.scaling == Scaling::linear) f /= rope.factor;
    if (rope.scaling == Scaling::llama3) f = llama3(rope, f);
    if (rope.scaling == Scaling::yarn) f = f / rope.factor * ramp.at(i) + f * (1.0 - ramp.at(i));
  }
  return frequencies;
}

double rope_attention_factor(const RopeParameters& rope) {
  if (rope.scaling != RopeParameters::Scaling::yarn) return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale == 0.0 || rope.mscale_all_dim == 0.0) return temperature(rope.factor, 1.0);
  return temperature(rope.factor, rope.mscale) / temperature(rope.factor, rope.mscale_all_dim);
}

}  // namespace dgap::engine
