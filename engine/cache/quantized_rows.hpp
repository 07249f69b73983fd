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
  /// `codec` must outlive the rows; null where nothing will be quantised.
  explicit QuantizedRows(const Codec* codec) : codec_(codec) {}

  /// Takes what the codec keeps of a prefix; before the first row.
  void calibrate(std::int64_t begin, std::int64_t end, const RowReader& read) {
    parameters_ = codec_->calibrate(begin, end, read);
  }

  std::int64_t size() const { return size_; }
  /// Rows that are appended together.
  std::int64_t step() const { return codec_->layout().step; }
  void reserve(std::int64_t rows);
  /// x [rows, width], rows a multiple of step().
  void append(std::int64_t rows, const float* x);
  /// out [to - from, width].
  void read(std::int64_t from, std::int64_t to, float* out) const;

  std::span<const std::uint8_t> codes() const { return codes_; }
  std::span<const std::uint16_t> scales() const { return scales_; }
  std::span<const std::uint16_t> minima() const { return minima_; }
  std::span<const float> parameters() const { return parameters_; }
  /// Bytes of codes, scales and minima that are in use.
  std::int64_t bytes() const;
  /// Bytes that do not grow with the rows.
  std::int64_t parameter_bytes() const {
    return static_cast<std::int64_t>(parameters_.size() * sizeof(float));
  }

 private:
  const Codec* codec_;
  std::int64_t size_ = 0;
  std::vector<std::uint8_t> codes_;             // [size, row_bytes]
  std::vector<std::uint16_t> scales_, minima_;  // [size / step, the layout's]
  std::vector<float> parameters_;
};

}  // namespace dgap::engine
