#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cache/codec.hpp"
#include "engine/cache/packing.hpp"

namespace dgap::engine {

/// Threshold and levels of the two-bit Lloyd-Max quantiser of a unit normal, arXiv:2504.19874.
inline constexpr float kLloydInner = 0.4528f, kLloydOuter = 1.510f, kLloydThreshold = 0.9816f;

/// Whether the groups of such codes have a minimum beside their scale.
inline bool has_minima(schemas::Quantizer quantizer) {
  using enum schemas::Quantizer;
  return quantizer == asymmetric || quantizer == asymmetric_fp16 || quantizer == q4_1 ||
         quantizer == q5_1;
}

/// Codes of groups of values that share one FP16 scale, and with some a minimum: channels of one
/// token (a divisor of width), or consecutive tokens of one channel.
struct GroupFormat {
  schemas::Quantizer quantizer = schemas::Quantizer::sign_mean;
  int bits = 1;
  schemas::GroupAxis axis = schemas::GroupAxis::token;
  int width = 0, group = 0;
  bool norm_correction = false;
  int level_count = 0;        // 0 where reads are not looked up
  float levels[16] = {};      // ascending, in units of the scale
  float thresholds[15] = {};  // between neighbours

  GroupFormat() = default;
  GroupFormat(const schemas::TensorScheme& tensor, int head_dim);

  bool has_minima() const { return engine::has_minima(quantizer); }
  int step() const { return axis == schemas::GroupAxis::token ? 1 : group; }
  std::size_t row_bytes() const { return packed_bytes(bits, static_cast<std::size_t>(width)); }
  /// Scales of one step: width / group of a token, or one per channel.
  std::size_t step_scales() const {
    return static_cast<std::size_t>(axis == schemas::GroupAxis::token ? width / group : width);
  }
};

void encode_groups(const GroupFormat& format, std::int64_t rows, const float* x,
                   std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima);
void decode_groups(const GroupFormat& format, std::int64_t from, std::int64_t to,
                   const std::uint8_t* codes, const std::uint16_t* scales,
                   const std::uint16_t* minima, float* out);

class GroupCodec final : public Codec {
 public:
  explicit GroupCodec(const GroupFormat& format);
  void encode(std::span<const float>, std::int64_t rows, const float* x, std::uint8_t* codes,
              std::uint16_t* scales, std::uint16_t* minima) const override {
    encode_groups(format_, rows, x, codes, scales, minima);
  }
  void decode(std::span<const float>, std::int64_t from, std::int64_t to, const std::uint8_t* codes,
              const std::uint16_t* scales, const std::uint16_t* minima, float* out) const override {
    decode_groups(format_, from, to, codes, scales, minima, out);
  }

 private:
  GroupFormat format_;
};

}  // namespace dgap::engine
