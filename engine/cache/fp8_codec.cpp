#include "engine/cache/fp8_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.hpp"
#include "base/multiversion.hpp"

namespace dgap::engine {
namespace {

/// Both formats are binary16 with fewer bits: e5m2 its upper byte, e4m3 with an exponent bias of 7
/// in place of 15, so that 2^8 times the binary16 of the same fields is the value.
struct E4m3 {
  static constexpr float kTop = 448.0f;
  static constexpr int kShift = 7;
  static constexpr float kUnit = 256.0f;
  static constexpr std::uint32_t kNormal = 0x3c800000u;  // 2^-6
  static constexpr float kAlign = 0x1p14f;               // has ulp 2^-9, the smallest value
  static constexpr int kDropped = 20;                    // mantissa bits
  static constexpr std::uint32_t kRebias = (127u - 7u) << 23;
};
struct E5m2 {
  static constexpr float kTop = 57344.0f;
  static constexpr int kShift = 8;
  static constexpr float kUnit = 1.0f;
  static constexpr std::uint32_t kNormal = 0x38800000u;  // 2^-14
  static constexpr float kAlign = 0x1p7f;                // has ulp 2^-16
  static constexpr int kDropped = 21;
  static constexpr std::uint32_t kRebias = (127u - 15u) << 23;
};

template <class Format>
DGAP_INLINE std::uint8_t to_fp8(float x) {
  float size = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  size = size > Format::kTop ? Format::kTop : size;
  size = size >= 0.0f ? size : 0.0f;  // NaN
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t half = (1u << (Format::kDropped - 1)) - 1u;
  const std::uint32_t normal =
      (bits + half + ((bits >> Format::kDropped) & 1u) - Format::kRebias) >> Format::kDropped;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(size + Format::kAlign) -
                                  std::bit_cast<std::uint32_t>(Format::kAlign);
  const std::uint32_t code = bits < Format::kNormal ? subnormal : normal;
  return static_cast<std::uint8_t>(code | (std::bit_cast<std::uint32_t>(x) >> 24 & 0x80u));
}

template <class Format>
DGAP_INLINE float from_fp8(std::uint8_t code) {
  const auto fields =
      static_cast<std::uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << Format::kShift);
  return base::from_half(fields) * Format::kUnit;
}

template <class Format>
DGAP_INLINE void encode_all(std::size_t n, const float* x, float scale, std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i) codes[i] = to_fp8<Format>(x[i] / scale);
}
template <class Format>
DGAP_INLINE void decode_all(std::size_t n, const std::uint8_t* codes, float scale, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = from_fp8<Format>(codes[i]) * scale;
}

DGAP_MULTIVERSION void encode_values(bool e4m3, std::size_t n, const float* x, float scale,
                                     std::uint8_t* codes) {
  e4m3 ? encode_all<E4m3>(n, x, scale, codes) : encode_all<E5m2>(n, x, scale, codes);
}
DGAP_MULTIVERSION void decode_values(bool e4m3, std::size_t n, const std::uint8_t* codes,
                                     float scale, float* out) {
  e4m3 ? decode_all<E4m3>(n, codes, scale, out) : decode_all<E5m2>(n, codes, scale, out);
}

}  // namespace

Fp8Codec::Fp8Codec(const schemas::TensorScheme& tensor, int head_dim)
    : Codec({head_dim, 1, static_cast<std::size_t>(head_dim), 0, 0}),
      e4m3_(tensor.quantizer == schemas::Quantizer::fp8_e4m3),
      scale_(tensor.scale) {}

std::vector<float> Fp8Codec::calibrate(std::int64_t begin, std::int64_t end,
                                       const RowReader& read) const {
  if (scale_ != 0.0f) return {};
  std::vector<float> row(static_cast<std::size_t>(layout().width));
  float top = 0.0f;
  for (std::int64_t t = begin; t < end; ++t) {
    read(t, t + 1, row.data());
    for (const float x : row) top = std::fabs(x) > top ? std::fabs(x) : top;
  }
  const float scale = top / (e4m3_ ? E4m3::kTop : E5m2::kTop);
  // A prefix without rows, or of zeros, says nothing about what follows.
  return {scale >= std::numeric_limits<float>::min() && std::isfinite(scale) ? scale : 1.0f};
}

void Fp8Codec::encode(std::span<const float> parameters, std::int64_t rows, const float* x,
                      std::uint8_t* codes, std::uint16_t*, std::uint16_t*) const {
  const std::size_t n = static_cast<std::size_t>(rows) * layout().row_bytes;
  encode_values(e4m3_, n, x, scale(parameters), codes);
}

void Fp8Codec::decode(std::span<const float> parameters, std::int64_t from, std::int64_t to,
                      const std::uint8_t* codes, const std::uint16_t*, const std::uint16_t*,
                      float* out) const {
  decode_values(e4m3_, static_cast<std::size_t>(to - from) * layout().row_bytes,
                codes + static_cast<std::size_t>(from) * layout().row_bytes, scale(parameters),
                out);
}

}  // namespace dgap::engine
