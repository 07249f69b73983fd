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

HadamardRotation::HadamardRotation(const Blocks& blocks)
    : width_(blocks.width),
      block_(blocks.block),
      factor_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(blocks.block)))) {
  if (width_ <= 0 || width_ > kMaxHeadDim || block_ <= 0 || width_ % block_ != 0 ||
      !std::has_single_bit(static_cast<unsigned>(block_)))
    throw base::FailedError("a Hadamard rotation of " + std::to_string(width_) +
                            " channels in blocks of " + std::to_string(block_) +
                            ": a block must be a power of two that divides the channels, at most " +
                            std::to_string(kMaxHeadDim));
}

HadamardRotation::HadamardRotation(int width, std::uint64_t seed)
    : HadamardRotation(Blocks{width, width}) {
  base::Random random(seed, "rotation");
  for (int c = 0; c < width; ++c) signs_.push_back((random.bits() & 1) != 0 ? -1.0f : 1.0f);
}

void HadamardRotation::apply(std::int64_t rows, float* x) const {
  transform(rows * (width_ / block_), static_cast<std::size_t>(block_),
            signs_.empty() ? nullptr : signs_.data(), nullptr, factor_, x);
}

void HadamardRotation::undo(std::int64_t rows, float* x) const {
  transform(rows * (width_ / block_), static_cast<std::size_t>(block_), nullptr,
            signs_.empty() ? nullptr : signs_.data(), factor_, x);
}

}  // namespace dgap::engine
