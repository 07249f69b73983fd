#include "trainer/standardisation.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/features.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

constexpr std::int64_t kStepsPerTask = 64;

/// Sums of f(step, into) over all steps, in tasks of a fixed size, folded in order.
template <class F>
std::vector<double> ordered_sums(std::int64_t steps, std::size_t width, const F& f) {
  const std::int64_t tasks = (steps + kStepsPerTask - 1) / kStepsPerTask;
  std::vector<double> partial(static_cast<std::size_t>(tasks) * width), total(width);
  tbb::parallel_for(std::int64_t{0}, tasks, [&](std::int64_t task) {
    const std::int64_t end = std::min(steps, (task + 1) * kStepsPerTask);
    f(task * kStepsPerTask, end, partial.data() + task * width);
  });
  for (std::int64_t task = 0; task < tasks; ++task) {
    for (std::size_t i = 0; i < width; ++i) total[i] += partial[task * width + i];
  }
  return total;
}

/// Adds (x - centre) or its square for every feature and candidate feature of [begin, end).
void add_moments(const Samples& samples, std::int64_t begin, std::int64_t end,
                 const std::vector<double>& centre, bool squared, double* sums) {
  const int own = samples.own_inputs();
  std::vector<float> xi(static_cast<std::size_t>(samples.window) * own);
  std::vector<float> hidden(static_cast<std::size_t>(samples.hidden_width()));
  const auto add = [&](const float* x, int count, int first) {
    for (int i = 0; i < count; ++i) {
      const double d = x[i] - centre[first + i];
      sums[first + i] += squared ? d * d : d;
    }
  };
  for (std::int64_t step = begin; step < end; ++step) {
    add(samples.features.data() + step * kDetectorWidth, kDetectorWidth, 0);
    samples.candidate_inputs(step, xi.data(), own);
    for (std::int32_t i = 0; i < samples.size[step]; ++i) {
      add(xi.data() + std::int64_t{i} * own, own, kDetectorWidth);
    }
    samples.hidden_state(step, hidden.data());
    add(hidden.data(), samples.hidden_width(), kDetectorWidth + own);
  }
}

}  // namespace

Standardisation standardisation(const Samples& samples) {
  const auto shape_inputs = static_cast<std::size_t>(kDetectorWidth + samples.own_inputs());
  const std::size_t width = shape_inputs + static_cast<std::size_t>(samples.hidden_width());
  const double candidates = std::accumulate(samples.size.begin(), samples.size.end(), 0.0);
  const auto count = [&](std::size_t i) {
    const bool of_steps = i < kDetectorWidth || i >= shape_inputs;
    return of_steps ? static_cast<double>(samples.steps) : candidates;
  };
  std::vector<double> centre(width);
  const auto moments = [&](bool squared) {
    return ordered_sums(samples.steps, width, [&](auto begin, auto end, double* sums) {
      add_moments(samples, begin, end, centre, squared, sums);
    });
  };
  const std::vector<double> sums = moments(false);
  for (std::size_t i = 0; i < width; ++i) centre[i] = sums[i] / count(i);
  const std::vector<double> squares = moments(true);
  Standardisation result{std::vector<float>(width), std::vector<float>(width)};
  for (std::size_t i = 0; i < width; ++i) {
    const double deviation = std::sqrt(squares[i] / count(i));
    // Below the resolution of an f32 the feature is constant.
    const bool constant = !(deviation > 1e-6 * std::abs(centre[i]) + 1e-12);
    result.mean[i] = static_cast<float>(centre[i]);
    result.scale[i] = constant ? 0.0f : static_cast<float>(1.0 / deviation);
  }
  return result;
}

}  // namespace dgap::trainer
