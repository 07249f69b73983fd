#include "trainer/adamw.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/multiversion.hpp"

namespace dgap::trainer {
namespace {

using base::kLanes;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

struct Rates {
  float decay;       // learning rate x weight decay
  float step;        // learning rate / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
};

DGAP_MULTIVERSION void update(std::int64_t count, Rates rates, const float* decays,
                              const float* gradient, float* mean, float* square,
                              float* parameters) {
  constexpr auto b1 = static_cast<float>(kBeta1), c1 = static_cast<float>(1.0 - kBeta1);
  constexpr auto b2 = static_cast<float>(kBeta2), c2 = static_cast<float>(1.0 - kBeta2);
  constexpr auto epsilon = static_cast<float>(kEpsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    mean[i] = b1 * mean[i] + c1 * g;
    square[i] = b2 * square[i] + c2 * (g * g);
    const float decayed = parameters[i] - rates.decay * decays[i] * parameters[i];
    const float denominator = std::sqrt(square[i]) * rates.root_scale + epsilon;
    parameters[i] = decayed - rates.step * mean[i] / denominator;
  }
}

/// sin(x), 0 <= x <= pi / 2, by its series: absolute error below 1e-13. Own, because the C
/// library's results differ between versions.
double sine(double x) {
  const double square = x * x;
  double term = x, sum = x;
  for (int n = 2; n < 20; n += 2) {
    term *= -square / (n * (n + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

AdamW::AdamW(std::vector<float> decays, double weight_decay)
    : decays_(std::move(decays)),
      mean_(decays_.size()),
      square_(decays_.size()),
      weight_decay_(weight_decay) {}

void AdamW::step(std::span<float> parameters, std::span<const float> gradient,
                 double learning_rate) {
  mean_decay_ *= kBeta1;
  square_decay_ *= kBeta2;
  const Rates rates{static_cast<float>(learning_rate * weight_decay_),
                    static_cast<float>(learning_rate / (1.0 - mean_decay_)),
                    static_cast<float>(1.0 / std::sqrt(1.0 - square_decay_))};
  update(static_cast<std::int64_t>(parameters.size()), rates, decays_.data(), gradient.data(),
         mean_.data(), square_.data(), parameters.data());
}

DGAP_MULTIVERSION double norm(std::span<const float> values) {
  double lanes[kLanes] = {};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const auto v = static_cast<double>(values[i + l]);
      lanes[l] += v * v;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const auto v = static_cast<double>(values[i]);
    lanes[i - whole] += v * v;
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return std::sqrt(sum);
}

void clip(std::span<float> gradient, double gradient_norm, double limit) {
  if (!(gradient_norm > limit)) return;
  const auto scale = static_cast<float>(limit / gradient_norm);
  for (float& g : gradient) g *= scale;
}

double scheduled_rate(double peak, std::int64_t update, std::int64_t updates) {
  const std::int64_t warm_up = std::max<std::int64_t>(1, updates / 20);
  if (update < warm_up)
    return peak * static_cast<double>(update + 1) / static_cast<double>(warm_up);
  const double done = static_cast<double>(update - warm_up) /
                      static_cast<double>(std::max<std::int64_t>(1, updates - warm_up));
  const double s = sine(0.5 * std::numbers::pi * done);
  return peak * (1.0 - s * s);  // (1 + cos(pi done)) / 2
}

}  // namespace dgap::trainer
