#include "runtime/features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"

namespace dgap::runtime {
namespace {

using base::kLanes;

constexpr int kHead = 11;  // the first candidates, which features name one by one

/// Everything is computed in f64 and rounded once; what no float can hold becomes the largest one.
DGAP_INLINE float rounded(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  x = x > kLargest ? kLargest : x;
  return static_cast<float>(x < -kLargest ? -kLargest : x);
}

/// Sums over the window, lane by lane, folded in one order. d = z - z(1), l = z - lse, p = exp(l).
struct WindowSums {
  double p = 0, pp = 0, pl = 0, d = 0, dd = 0;
};

DGAP_MULTIVERSION WindowSums window_sums(const float* z, std::int64_t n, double lse) {
  double p[kLanes] = {}, pp[kLanes] = {}, pl[kLanes] = {}, d[kLanes] = {}, dd[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const std::int64_t used = std::min<std::int64_t>(kLanes, n - i);
    float x[kLanes];
    for (int j = 0; j < kLanes; ++j) x[j] = j < used ? z[i + j] : z[0];
    for (int j = 0; j < kLanes; ++j) {
      const double log_p = static_cast<double>(x[j]) - lse;
      const double probability = j < used ? base::exp_f64(log_p) : 0.0;
      const double below_top = static_cast<double>(x[j]) - static_cast<double>(z[0]);
      p[j] += probability;
      pp[j] += probability * probability;
      pl[j] += probability * log_p;
      d[j] += below_top;
      dd[j] += below_top * below_top;
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) {
      p[j] += p[j + width];
      pp[j] += pp[j + width];
      pl[j] += pl[j + width];
      d[j] += d[j + width];
      dd[j] += dd[j + width];
    }
  }
  return {p[0], pp[0], pl[0], d[0], dd[0]};
}

struct Gaps {
  double mean = 0, deviation = 0, min = 0;
};

/// Over the first min(10, K - 1) gaps between neighbours; zeros when there is none.
Gaps gaps_of(const double* head, int candidates) {
  const int n = std::min(kHead, candidates) - 1;
  if (n <= 0) return {};
  Gaps gaps{(head[0] - head[n]) / n, 0.0, head[0] - head[1]};
  double squares = 0.0;
  for (int i = 0; i < n; ++i) {
    const double gap = head[i] - head[i + 1];
    gaps.min = std::min(gaps.min, gap);
    squares += (gap - gaps.mean) * (gap - gaps.mean);
  }
  gaps.deviation = std::sqrt(squares / n);
  return gaps;
}

}  // namespace

void detector_features(std::span<const float> window, double lse, float entropy, float* out) {
  const auto k = static_cast<std::int64_t>(window.size());
  const WindowSums sums = window_sums(window.data(), k, lse);
  double z[kHead], mass[kHead];  // the last candidate stands in for those beyond it
  double held = 0.0;
  for (int i = 0; i < kHead; ++i) {
    z[i] = window[static_cast<std::size_t>(std::min<std::int64_t>(i, k - 1))];
    held += i < k ? base::exp_f64(z[i] - lse) : 0.0;
    mass[i] = held;
  }
  const Gaps gaps = gaps_of(z, static_cast<int>(std::min<std::int64_t>(k, kHead)));
  const double log_mass = base::log_f64(sums.p);
  const double count = static_cast<double>(k);
  const double variance = (sums.dd - sums.d * sums.d / count) / count;
  const double log_odds = log_mass - base::log_f64(std::max(0.0, 1.0 - sums.p));
  const double features[kDetectorWidth] = {entropy,
                                           sums.p,
                                           mass[0],
                                           mass[1],
                                           mass[4],
                                           mass[9],
                                           z[0] - z[1],
                                           z[1] - z[2],
                                           z[2] - z[3],
                                           gaps.mean,
                                           gaps.deviation,
                                           gaps.min,
                                           z[0] - z[4],
                                           z[0] - z[9],
                                           z[0] - window.back(),
                                           std::max(0.0, log_mass - sums.pl / sums.p),
                                           sums.pp / (sums.p * sums.p),
                                           std::max(0.0, variance),
                                           std::clamp(log_odds, -12.0, 12.0),
                                           base::log_f64(count)};
  for (int i = 0; i < kDetectorWidth; ++i) out[i] = rounded(features[i]);
}

DGAP_MULTIVERSION void candidate_features(std::span<const float> window, double lse, float* out,
                                          std::int64_t stride) {
  const auto k = static_cast<std::int64_t>(window.size());
  const double top = window[0];
  double below_top = 0.0;
  for (const float z : window) below_top += static_cast<double>(z) - top;
  const double mean = top + below_top / static_cast<double>(k);
  for (std::int64_t first = 0; first < k; first += kLanes) {
    const int used = static_cast<int>(std::min<std::int64_t>(kLanes, k - first));
    double z[kLanes], above[kLanes], below[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      const std::int64_t i = std::min(first + l, k - 1);
      z[l] = window[i];
      above[l] = window[std::max<std::int64_t>(i - 1, 0)];
      below[l] = window[std::min(i + 1, k - 1)];
    }
    float xi[kCandidateWidth][kLanes];
    for (int l = 0; l < kLanes; ++l) {
      xi[0][l] = rounded(z[l] - mean);
      xi[1][l] = rounded(base::exp_f64(z[l] - lse));
      xi[2][l] = rounded(z[l] - lse);
      xi[3][l] = rounded(base::log_f64(static_cast<double>(first + l + 1)));
      xi[4][l] = rounded(top - z[l]);
      xi[5][l] = rounded(above[l] - z[l]);
      xi[6][l] = rounded(z[l] - below[l]);
    }
    float* to = out + first * stride;
    for (int l = 0; l < used; ++l, to += stride) {
      for (int f = 0; f < kCandidateWidth; ++f) to[f] = xi[f][l];
    }
  }
}

}  // namespace dgap::runtime
