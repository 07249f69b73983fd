#include "engine/backend/cpu/elementwise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/exp.hpp"
#include "base/multiversion.hpp"

namespace dgap::engine {

using base::kLanes;

DGAP_MULTIVERSION void rms_norm(std::int64_t n, const float* x, const float* weight, float epsilon,
                                float* out) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * x[i + l];
  for (int l = 0; i < n; ++i, ++l) lanes[l] += x[i] * x[i];
  for (int step = kLanes / 2; step > 0; step /= 2)
    for (int l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  const float scale = 1.0f / std::sqrt(lanes[0] / static_cast<float>(n) + epsilon);
  for (std::int64_t j = 0; j < n; ++j) out[j] = x[j] * scale * weight[j];
}

DGAP_MULTIVERSION void swiglu(std::int64_t rows, float* values) {
  for (std::int64_t r = 0; r < rows; ++r, values += 2 * kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float gate = values[l];
      values[l] = gate / (1.0f + base::exp_f32(-gate)) * values[kLanes + l];
    }
}

DGAP_MULTIVERSION void add_bias(std::int64_t rows, std::int64_t n, const float* bias, float* x,
                                std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r, x += stride)
    for (std::int64_t i = 0; i < n; ++i) x[i] += bias[i];
}

DGAP_MULTIVERSION bool all_finite(std::int64_t rows, std::int64_t n, const float* x,
                                  std::int64_t stride) {
  std::uint32_t largest = 0;  // exponent bits, all ones for NaN and infinities
  for (std::int64_t r = 0; r < rows; ++r, x += stride)
    for (std::int64_t i = 0; i < n; ++i)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u);
  return largest != 0x7f800000u;
}

}  // namespace dgap::engine
