#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/codec.hpp"

namespace dgap::engine {

/// Quantised rows of one head, appended at the end: packed codes, FP16 scales and minima. Row 0 is
/// the first token that is not a sink.
class QuantizedRows {
 public:
  explicit QuantizedRows(const Codec& codec) : codec_(codec) {}

  const Codec& codec() const { return codec_; }
  std::int64_t size() const { return size_; }
  void reserve(std::int64_t rows);
  /// x [rows, width], rows a multiple of codec().step().
  void append(std::int64_t rows, const float* x);
  /// out [to - from, width].
  void read(std::int64_t from, std::int64_t to, float* out) const;

  std::span<const std::uint8_t> codes() const { return codes_; }
  std::span<const std::uint16_t> scales() const { return scales_; }
  std::span<const std::uint16_t> minima() const { return minima_; }
  /// Bytes of codes, scales and minima that are in use.
  std::int64_t bytes() const;

 private:
  Codec codec_;
  std::int64_t size_ = 0;
  std::vector<std::uint8_t> codes_;             // [size, row_bytes]
  std::vector<std::uint16_t> scales_, minima_;  // [size / step, step_scales]
};

}  // namespace dgap::engine
