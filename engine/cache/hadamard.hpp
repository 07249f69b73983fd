#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/rotation.hpp"

namespace dgap::engine {

/// The rotation x -> H (s * x) of each block of channels: signs s, then the orthonormal Sylvester
/// Hadamard matrix H, entry (i, j) = (-1)^popcount(i & j) / sqrt(block). f32, butterflies of
/// distance block/2, block/4, ..., 1, then one factor.
class HadamardRotation final : public Rotation {
 public:
  struct Blocks {
    int width, block;  // block: a power of two that divides width
  };
  /// No signs. FailedError where the blocks are none of a power of two, or wider than kMaxHeadDim.
  explicit HadamardRotation(const Blocks& blocks);
  /// One block with random signs: sign c is -1 when bit 0 of the c-th draw of
  /// base::Random(seed, "rotation") is 1.
  HadamardRotation(int width, std::uint64_t seed);

  void apply(std::int64_t rows, float* x) const override;
  /// x -> s * (H x).
  void undo(std::int64_t rows, float* x) const override;
  /// Empty without signs.
  std::span<const float> signs() const { return signs_; }

 private:
  int width_, block_;
  float factor_;
  std::vector<float> signs_;
};

}  // namespace dgap::engine
