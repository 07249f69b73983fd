#pragma once
#include <cstdint>
#include <vector>

#include "engine/model/rope_parameters.hpp"

namespace dgap::engine {

/// Rotary position embedding, arXiv:2104.09864, in the Hugging Face pairing (channel i with channel
/// i + head_dim / 2): angle(p, i) = p * rope_frequencies[i], i < head_dim / 2. Cosines and sines,
/// times the attention factor, are computed in f64 and stored as f32 [capacity, head_dim / 2]; the
/// rotation itself is f32.
///
/// With dynamic scaling the frequencies are those of length p + 1 at each position p: what a token
/// decoded step by step gets, so that prefill, block and step agree.
class RopeTable {
 public:
  /// head_dim even and positive, divisors of the right number (FailedError otherwise).
  RopeTable(int head_dim, const RopeParameters& parameters, std::int64_t capacity = 0);

  /// Makes positions [0, capacity) usable; grows geometrically. Not thread-safe.
  void reserve(std::int64_t capacity);

  int head_dim() const { return head_dim_; }
  std::int64_t capacity() const { return capacity_; }
  const float* cosines(std::int64_t position) const { return &cosines_[index(position)]; }
  const float* sines(std::int64_t position) const { return &sines_[index(position)]; }

  /// Rotates x [tokens, heads, head_dim] in place; token t is at position first + t < capacity().
  void apply(std::int64_t first, std::int64_t tokens, std::int64_t heads, float* x) const;
  /// x [rows, head_dim] -> the rotation of x * scale + shift, in place; scale and shift [head_dim],
  /// row r at position first + r.
  void apply(std::int64_t first, std::int64_t rows, const float* scale, const float* shift,
             float* x) const;
  /// Rotates rows that lie `stride` floats apart, row r at position first + r, into out
  /// [rows, head_dim]. The two must not overlap.
  void apply(std::int64_t first, std::int64_t rows, const float* x, std::int64_t stride,
             float* out) const;

 private:
  std::size_t index(std::int64_t position) const {
    return static_cast<std::size_t>(position * (head_dim_ / 2));
  }

  int head_dim_;
  std::int64_t capacity_ = 0;
  RopeParameters parameters_;
  std::vector<float> cosines_, sines_;
};

}  // namespace dgap::engine
