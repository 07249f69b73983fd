#include "engine/cache/hadamard.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "base/random.hpp"
#include "engine/cache/rows.hpp"

namespace dgap::engine {
namespace {

/// One level of butterflies in constant geometry: values half the width apart are combined and
/// stored side by side, which moves the next distance to half the width. After log2(width) levels
/// every index bit has been through, and the order is the natural one again.
DGAP_INLINE void butterflies(const float* __restrict in, float* __restrict out, std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    out[2 * i] = in[i] + in[i + half];
    out[2 * i + 1] = in[i] - in[i + half];
  }
}

/// x[i] = after[i] * (H (before * x))[i]; a factor array may be null.
DGAP_MULTIVERSION void transform(std::int64_t rows, std::size_t width, const float* before,
                                 const float* after, float factor, float* x) {
  float even[kMaxHeadDim], odd[kMaxHeadDim];
  for (std::int64_t r = 0; r < rows; ++r, x += width) {
    float* from = even;
    float* to = odd;
    for (std::size_t i = 0; i < width; ++i) from[i] = before == nullptr ? x[i] : before[i] * x[i];
    for (std::size_t level = 1; level < width; level *= 2) {
      butterflies(from, to, width / 2);
      float* swap = from;
      from = to;
      to = swap;
    }
    for (std::size_t i = 0; i < width; ++i)
      x[i] = after == nullptr ? factor * from[i] : after[i] * (factor * from[i]);
  }
}

}  // namespace

Rotation::Rotation(int width, std::uint64_t seed) {
  if (width <= 0 || width > kMaxHeadDim || !std::has_single_bit(static_cast<unsigned>(width)))
    throw base::FailedError("a rotation of " + std::to_string(width) +
                            " channels: the number must be a power of two, at most " +
                            std::to_string(kMaxHeadDim));
  base::Random random(seed, "rotation");
  for (int c = 0; c < width; ++c) signs_.push_back((random.bits() & 1) != 0 ? -1.0f : 1.0f);
}

void Rotation::apply(std::int64_t rows, float* x) const {
  const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(signs_.size())));
  transform(rows, signs_.size(), signs_.data(), nullptr, factor, x);
}

void Rotation::undo(std::int64_t rows, float* x) const {
  const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(signs_.size())));
  transform(rows, signs_.size(), nullptr, signs_.data(), factor, x);
}

}  // namespace dgap::engine
