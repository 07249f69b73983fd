#pragma once
#include <span>
#include <vector>

#include "engine/cache/layer_codes.hpp"

namespace dgap::engine {

/// KVQuant (arXiv:2401.18079): inliers, brought into [-1, 1] by the channel's calibrated thresholds
/// (axis channel) or the token's own range over all heads (axis token), as the nearest of the
/// layer's calibrated levels; outliers exactly, as FP16 with their channels, token after token.
class KvquantCodes final : public LayerCodes {
 public:
  KvquantCodes(const schemas::TensorScheme& tensor, int heads, int head_dim,
               const schemas::TensorCalibration& calibration);
  std::int64_t size() const override { return size_; }
  void append(std::int64_t end, const HeadReader& read) override;
  void read(int head, std::int64_t from, std::int64_t to, float* out) const override;
  std::int64_t bytes() const override;
  std::int64_t constant_bytes() const override;

  /// What it stores, for tests and tools.
  std::span<const std::uint8_t> codes() const { return codes_; }     // [size, heads, row_bytes]
  std::span<const std::uint16_t> ranges() const { return ranges_; }  // [size, offset and scale]
  std::span<const std::uint32_t> row_ends() const { return row_ends_; }
  std::span<const std::uint16_t> channels() const { return channels_; }
  std::span<const std::uint16_t> outliers() const { return outliers_; }

 private:
  void append_row(std::span<float> x);
  void encode(std::span<const float> x, const float* offset, const float* scale, std::size_t step);
  void decode_row(int head, std::int64_t token, float* out) const;

  int bits_, heads_, head_dim_;
  bool by_token_, sparse_, shifted_reads_;
  int per_end_ = 0;                    // outliers of a token at either end, by token
  std::vector<float> offset_, scale_;  // by channel
  std::vector<float> lower_, upper_;
  float thresholds_[15], reads_[16] = {};
  std::size_t row_bytes_;  // of a head
  std::int64_t size_ = 0;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint16_t> ranges_, channels_, outliers_;
  std::vector<std::uint32_t> row_ends_;               // entries of tokens up to and with this one
  std::vector<std::uint8_t> is_outlier_, row_codes_;  // of the row that is being encoded
};

}  // namespace dgap::engine
