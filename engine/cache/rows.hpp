#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache/rope.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::engine {

/// Head dimensions that the caches accept: bounds the buffers that they keep on the stack.
inline constexpr int kMaxHeadDim = 512;

/// Vectors of consecutive tokens of one head, [tokens, width], as FP16 or f32. Rows are appended at
/// the end and dropped at the beginning; tokens keep their numbers.
class Rows {
 public:
  Rows(int width, ExactCacheType type) : width_(width), type_(type) {}

  /// Tokens [begin(), end()) are held; the first token of an empty Rows is `first`.
  void start_at(std::int64_t first) { begin_ = end_ = first; }
  void reserve(std::int64_t tokens);
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  /// Bytes of the rows that are held.
  std::int64_t bytes() const;

  /// Appends rows that lie `stride` floats apart, rounded to the storage type.
  void append(std::int64_t rows, const float* x, std::int64_t stride);
  /// The same rows, rotated to their positions (in f32) before they are rounded.
  void append_rotated(const RopeTable& rope, std::int64_t rows, const float* x,
                      std::int64_t stride);
  /// Forgets tokens below `token`. Amortised O(1) per row.
  void drop_before(std::int64_t token);
  /// out [to - from, width], begin() <= from <= to <= end().
  void read(std::int64_t from, std::int64_t to, float* out) const;

 private:
  int width_;
  ExactCacheType type_;
  std::int64_t begin_ = 0, end_ = 0;
  std::size_t front_ = 0;  // values before the first row that is held
  std::vector<std::uint16_t> halves_;
  std::vector<float> floats_;
};

}  // namespace dgap::engine
