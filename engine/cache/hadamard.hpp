#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dgap::engine {

/// The rotation x -> H (s * x) of rows [rows, width]: random signs s, then the orthonormal
/// Sylvester Hadamard matrix H, entry (i, j) = (-1)^popcount(i & j) / sqrt(width). f32, butterflies
/// of distance width/2, width/4, ..., 1, then one factor. Sign c is -1 when bit 0 of the c-th draw
/// of base::Random(seed, "rotation") is 1; a cache has one vector of signs for all layers, heads
/// and both tensors.
class Rotation {
 public:
  /// width: a power of two, at most kMaxHeadDim (FailedError otherwise).
  Rotation(int width, std::uint64_t seed);

  void apply(std::int64_t rows, float* x) const;
  /// The inverse, x -> s * (H x).
  void undo(std::int64_t rows, float* x) const;
  std::span<const float> signs() const { return signs_; }

 private:
  std::vector<float> signs_;
};

}  // namespace dgap::engine
