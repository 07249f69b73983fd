#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cache/packing.hpp"
#include "schemas/scheme/scheme.hpp"

/// The quantisers of docs/schemes.md: values to packed codes with FP16 scales, and back.
namespace dgap::engine {

/// Levels and threshold of the two-bit Lloyd-Max quantiser of a unit normal, arXiv:2504.19874.
inline constexpr float kLloydInner = 0.4528f, kLloydOuter = 1.510f, kLloydThreshold = 0.9816f;

/// How rows [tokens, width] of one head become codes. `group` values share a scale: channels of one
/// token (a divisor of width), or consecutive tokens of one channel.
struct Codec {
  schemas::Quantizer quantizer = schemas::Quantizer::sign_mean;
  int bits = 1;
  schemas::GroupAxis axis = schemas::GroupAxis::token;
  int width = 0, group = 0;

  Codec() = default;
  Codec(const schemas::TensorScheme& tensor, int head_dim);

  bool has_minima() const {
    return quantizer == schemas::Quantizer::asymmetric ||
           quantizer == schemas::Quantizer::asymmetric_fp16;
  }
  /// Tokens that are encoded together.
  int step() const { return axis == schemas::GroupAxis::token ? 1 : group; }
  std::size_t row_bytes() const { return packed_bytes(bits, static_cast<std::size_t>(width)); }
  /// Scales of one step: width / group of a token, or one per channel.
  std::size_t step_scales() const {
    return static_cast<std::size_t>(axis == schemas::GroupAxis::token ? width / group : width);
  }
};

/// Encodes x [rows, width], rows a multiple of step(): packed codes [rows, row_bytes()], FP16
/// scales and (asymmetric) minima [rows / step(), step_scales()]. Any input is safe; what NaN and
/// infinity become is unspecified but finite codes.
void encode(const Codec& codec, std::int64_t rows, const float* x, std::uint8_t* codes,
            std::uint16_t* scales, std::uint16_t* minima);

/// Decodes rows [from, to) of such arrays into out [to - from, width].
void decode(const Codec& codec, std::int64_t from, std::int64_t to, const std::uint8_t* codes,
            const std::uint16_t* scales, const std::uint16_t* minima, float* out);

}  // namespace dgap::engine
