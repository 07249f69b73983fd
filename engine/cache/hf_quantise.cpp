#include "engine/cache/hf_quantise.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace dgap::engine {
namespace {

constexpr std::size_t kGroupsPerTask = 64;
constexpr int kSolverSteps = 20;
constexpr double kExponent = 0.7 - 1.0;  // of the shrinkage, p - 1
constexpr float kInverseBeta = 0.1f;     // 1 / beta
constexpr float kShrinksToZero = 0.17f;  // below 0.1^(1 / 1.3), all of an error is shrunk away

float clamped(float x, float top) { return x < 0.0f ? 0.0f : x > top ? top : x; }

/// Calls task(group, its values, its elements) for all groups, in parallel.
template <class Task>
void for_each_group(const HfGroups& groups, std::span<const float> x, const Task& task) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, groups.count(), kGroupsPerTask),
                    [&](const auto& range) {
                      std::vector<std::size_t> elements;
                      std::vector<float> values;
                      for (std::size_t g = range.begin(); g < range.end(); ++g) {
                        groups.elements(g, elements);
                        values.resize(elements.size());
                        for (std::size_t i = 0; i < elements.size(); ++i)
                          values[i] = x[elements[i]];
                        task(g, std::span<const float>(values), elements);
                      }
                    });
}

/// hqq's state of a group: code = round(x scale + zero).
struct Affine {
  float scale = 1.0f, zero = 0.0f;
  float code(float x, float top) const { return clamped(std::nearbyint(x * scale + zero), top); }
};

Affine start_of(std::span<const float> x, float top) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float width = *high - *low;
  Affine made;
  if (std::fabs(width) > 1e-4f) made.scale = std::min(top / width, 2e4f);
  made.zero = -*low * made.scale;
  return made;
}

/// What is left of an error: max(|e| - |e|^(p - 1) / beta, 0), with its sign.
float shrunk(float error) {
  const float size = std::fabs(error);
  if (size < kShrinksToZero) return 0.0f;
  const auto power = static_cast<float>(std::pow(static_cast<double>(size), kExponent));
  const float left = std::max(size - kInverseBeta * power, 0.0f);
  return error < 0.0f ? -left : left;
}

/// One proximal step; returns the sum of absolute errors before it.
double improve(std::span<const float> x, float top, Affine& affine) {
  double errors = 0.0, zeros = 0.0;
  for (const float value : x) {
    const float code = affine.code(value, top);
    const float error = value - (code - affine.zero) / affine.scale;
    errors += std::fabs(static_cast<double>(error));
    zeros += static_cast<double>(code - (value - shrunk(error)) * affine.scale);
  }
  affine.zero = static_cast<float>(zeros / static_cast<double>(x.size()));
  return errors;
}

}  // namespace

void quantise_quanto(int bits, const HfGroups& groups, std::span<const float> x,
                     std::span<std::uint8_t> codes, std::span<HfScale> scales) {
  const auto top = static_cast<float>((1 << bits) - 1);
  for_each_group(
      groups, x,
      [&](std::size_t g, std::span<const float> values, const std::vector<std::size_t>& elements) {
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        const float scale = round_saturated(round_saturated(*high - *low) / top), zero = -*low;
        scales[g] = {to_half_saturated(scale), to_half_saturated(zero)};
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const float unit =
              scale > 0.0f ? round_saturated(round_saturated(values[i] + zero) / scale) : 0.0f;
          codes[elements[i]] = static_cast<std::uint8_t>(clamped(std::nearbyint(unit), top));
        }
      });
}

void quantise_hqq(int bits, const HfGroups& groups, std::span<const float> x,
                  std::span<std::uint8_t> codes, std::span<HfScale> scales) {
  const auto top = static_cast<float>((1 << bits) - 1);
  std::vector<Affine> affine(groups.count());
  std::vector<double> errors(groups.count());
  for_each_group(groups, x, [&](std::size_t g, std::span<const float> values, const auto&) {
    affine[g] = start_of(values, top);
  });
  double best = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kSolverSteps; ++step) {
    for_each_group(groups, x, [&](std::size_t g, std::span<const float> values, const auto&) {
      errors[g] = improve(values, top, affine[g]);
    });
    const double error = std::accumulate(errors.begin(), errors.end(), 0.0);
    if (!(error < best)) break;
    best = error;
  }
  for_each_group(
      groups, x,
      [&](std::size_t g, std::span<const float> values, const std::vector<std::size_t>& elements) {
        scales[g] = {to_half_saturated(1.0f / affine[g].scale), to_half_saturated(affine[g].zero)};
        for (std::size_t i = 0; i < elements.size(); ++i)
          codes[elements[i]] = static_cast<std::uint8_t>(affine[g].code(values[i], top));
      });
}

}  // namespace dgap::engine
