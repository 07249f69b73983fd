#include "engine/cache/codebooks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

namespace dgap::engine {
namespace {

using schemas::Quantizer;

constexpr std::array<float, 8> kNormal3 = {-2.151946f, -1.343909f, -0.756005f, -0.245094f,
                                           0.245094f,  0.756005f,  1.343909f,  2.151946f};
constexpr std::array<float, 16> kNormal4 = {
    -2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f, -0.388048f, -0.128395f,
    0.128395f,  0.388048f,  0.656759f,  0.942340f,  1.256231f,  1.618046f,  2.069017f,  2.732590f};

constexpr std::array<float, 4> kNormalFloat2 = {-1.0f, 0.0f, 0.337915182f, 1.0f};
constexpr std::array<float, 8> kNormalFloat3 = {-1.0f,        -0.478629172f, -0.217141822f, 0.0f,
                                                0.160930172f, 0.337915182f,  0.562616944f,  1.0f};
constexpr std::array<float, 16> kNormalFloat4 = {
    -1.0f,          -0.69619292f, -0.525073051f, -0.394917488f, -0.284441352f, -0.18477343f,
    -0.0910499915f, 0.0f,         0.0795803294f, 0.160930172f,  0.246112287f,  0.337915182f,
    0.4407098f,     0.562616944f, 0.722956717f,  1.0f};

constexpr std::array<float, 16> kIq4Nl = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

template <class Array>
std::vector<float> copy(const Array& levels) {
  return {levels.begin(), levels.end()};
}

/// Integral of cos^power over [0, angle], by parts: n I(n) = cos^(n-1) sin + (n - 1) I(n - 2).
double cosine_integral(int power, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  double integral = power % 2 == 0 ? angle : s;
  double cosines = power % 2 == 0 ? c : c * c;  // cos^(n - 1)
  for (int n = power % 2 == 0 ? 2 : 3; n <= power; n += 2, cosines *= c * c)
    integral = (cosines * s + (n - 1) * integral) / n;
  return integral;
}

/// Lloyd's iteration.
std::vector<double> solve_centroids(int bits, int width) {
  // With y = sin(angle) the density is cos^(width - 2), so that a cell's mass and its first moment
  // are known in closed form. The positive half is iterated, from quantiles of a normal's spread.
  const auto half = static_cast<std::size_t>(1) << (bits - 1);
  std::vector<double> levels(half), masses(half + 1), edges(half + 1);
  for (std::size_t k = 0; k < half; ++k)
    levels[k] = (static_cast<double>(k) + 0.5) * 3.0 / static_cast<double>(half) /
                std::sqrt(static_cast<double>(width));
  edges[0] = 0.0;
  edges[half] = 1.0;
  constexpr int kRounds = 20000;
  double moved = 1.0;
  for (int round = 0; round < kRounds && moved > 1e-16; ++round) {
    for (std::size_t k = 1; k < half; ++k) edges[k] = (levels[k - 1] + levels[k]) / 2;
    for (std::size_t k = 0; k <= half; ++k)
      masses[k] =
          cosine_integral(width - 2, k == half ? std::numbers::pi / 2 : std::asin(edges[k]));
    moved = 0.0;
    for (std::size_t k = 0; k < half; ++k) {
      const auto tail = [&](double y) { return std::pow(1.0 - y * y, (width - 1) / 2.0); };
      const double moment = (tail(edges[k]) - tail(edges[k + 1])) / (width - 1);
      const double level = moment / (masses[k + 1] - masses[k]);
      moved = std::max(moved, std::fabs(level - levels[k]));
      levels[k] = level;
    }
  }
  std::vector<double> all(2 * half);
  for (std::size_t k = 0; k < half; ++k) {
    all[half + k] = levels[k];
    all[half - 1 - k] = -levels[k];
  }
  return all;
}

}  // namespace

std::vector<double> sphere_centroids(int bits, int width) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::vector<double>> solved;
  const std::lock_guard lock(mutex);
  std::vector<double>& levels = solved[{bits, width}];
  if (levels.empty()) levels = solve_centroids(bits, width);
  return levels;
}

std::vector<float> levels_of(const schemas::TensorScheme& tensor, int width) {
  switch (tensor.quantizer) {
    case Quantizer::lloyd_max:
      if (tensor.bits == 3) return copy(kNormal3);
      if (tensor.bits == 4) return copy(kNormal4);
      return {};
    case Quantizer::codebook:
      return tensor.levels;
    case Quantizer::normal_float:
      if (tensor.bits == 2) return copy(kNormalFloat2);
      return tensor.bits == 3 ? copy(kNormalFloat3) : copy(kNormalFloat4);
    case Quantizer::iq4_nl:
      return copy(kIq4Nl);
    case Quantizer::turboquant_mse: {
      const std::vector<double> centroids = sphere_centroids(tensor.bits, width);
      return {centroids.begin(), centroids.end()};
    }
    default:
      return {};
  }
}

}  // namespace dgap::engine
