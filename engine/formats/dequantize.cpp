#include "engine/formats/dequantize.hpp"

#include <cstring>

#include "base/error.hpp"
#include "base/half.hpp"
#include "base/multiversion.hpp"

namespace dgap::engine {
namespace {

using base::from_half;

DGAP_INLINE float half_at(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return from_half(bits);
}

/// 16 bytes hold 32 codes of 4 bits: element i in the low half of byte i, element i + 16 in the
/// high.
DGAP_INLINE void unpack_nibbles(const std::uint8_t* codes, std::int32_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = codes[i] & 15;
    q[i + 16] = codes[i] >> 4;
  }
}

/// Adds bit i of the 4 bytes at `high` to code i, as its bit 4.
DGAP_INLINE void add_fifth_bits(const std::uint8_t* high, std::int32_t* q) {
  std::uint32_t bits;
  std::memcpy(&bits, high, sizeof bits);
  for (int i = 0; i < 32; ++i) q[i] |= static_cast<std::int32_t>((bits >> i) & 1u) << 4;
}

DGAP_INLINE void scale(const std::int32_t* q, std::int32_t zero, float d, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(q[i] - zero);
}

DGAP_INLINE void scale_and_shift(const std::int32_t* q, float d, float m, float* y) {
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(q[i]) + m;
}

DGAP_MULTIVERSION void q4_0(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 18, y += 32) {
    std::int32_t q[32];
    unpack_nibbles(x + 2, q);
    scale(q, 8, half_at(x), y);
  }
}

DGAP_MULTIVERSION void q4_1(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 20, y += 32) {
    std::int32_t q[32];
    unpack_nibbles(x + 4, q);
    scale_and_shift(q, half_at(x), half_at(x + 2), y);
  }
}

DGAP_MULTIVERSION void q5_0(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 22, y += 32) {
    std::int32_t q[32];
    unpack_nibbles(x + 6, q);
    add_fifth_bits(x + 2, q);
    scale(q, 16, half_at(x), y);
  }
}

DGAP_MULTIVERSION void q5_1(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 24, y += 32) {
    std::int32_t q[32];
    unpack_nibbles(x + 8, q);
    add_fifth_bits(x + 4, q);
    scale_and_shift(q, half_at(x), half_at(x + 2), y);
  }
}

DGAP_MULTIVERSION void q8_0(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 34, y += 32) {
    const float d = half_at(x);
    for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(static_cast<std::int8_t>(x[2 + i])) * d;
  }
}

DGAP_MULTIVERSION void iq4_nl(const std::uint8_t* x, std::int64_t blocks, float* y) {
  constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
  for (std::int64_t b = 0; b < blocks; ++b, x += 18, y += 32) {
    std::int32_t q[32];
    unpack_nibbles(x + 2, q);
    const float d = half_at(x);
    for (int i = 0; i < 32; ++i) y[i] = d * kLevels[q[i]];
  }
}

/// Codes of 2 bits in Q2_K and Q3_K: the 32 of group g lie in bits 2 (g % 4) of 32 bytes, the first
/// four groups in the first 32 bytes.
DGAP_INLINE const std::uint8_t* two_bit_codes(const std::uint8_t* codes, int group) {
  return codes + 32 * (group / 4);
}

DGAP_MULTIVERSION void q2_k(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 84, y += 256) {
    const float d = half_at(x + 80), dmin = half_at(x + 82);
    for (int group = 0; group < 8; ++group) {  // 32 elements; two scales and minima
      const std::uint8_t* codes = two_bit_codes(x + 16, group);
      const int shift = 2 * (group % 4);
      for (int i = 0; i < 32; ++i) {
        const int packed = x[2 * group + i / 16];
        const float s = d * static_cast<float>(packed & 15);
        const float m = dmin * static_cast<float>(packed >> 4);
        y[32 * group + i] = s * static_cast<float>((codes[i] >> shift) & 3) - m;
      }
    }
  }
}

/// The 16 scales of a Q3_K block, 6 bits each in 12 bytes, offset by 32: the low 4 bits of scales i
/// and i + 8 in byte i, the high 2 bits of scale i in bits 2 (i / 4) of byte 8 + i % 4.
DGAP_INLINE void unpack_signed_scales(const std::uint8_t* p, int* scales) {
  for (int i = 0; i < 16; ++i) {
    const int low = (p[i % 8] >> (i < 8 ? 0 : 4)) & 15;
    scales[i] = (low | ((p[8 + i % 4] >> (2 * (i / 4))) & 3) << 4) - 32;
  }
}

DGAP_MULTIVERSION void q3_k(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 110, y += 256) {
    const float d = half_at(x + 108);
    int scales[16];
    unpack_signed_scales(x + 96, scales);
    for (int group = 0; group < 8; ++group) {  // 32 elements; two scales
      const std::uint8_t* codes = two_bit_codes(x + 32, group);
      const int shift = 2 * (group % 4);
      for (int i = 0; i < 32; ++i) {
        const int high = (x[i] >> group) & 1;  // the third bit; its absence subtracts 4
        const int q = ((codes[i] >> shift) & 3) - (high ^ 1) * 4;
        const float s = d * static_cast<float>(scales[2 * group + i / 16]);
        y[32 * group + i] = s * static_cast<float>(q);
      }
    }
  }
}

/// The 8 scales and 8 minima of a Q4_K or Q5_K block, 6 bits each in 12 bytes: the first four in
/// the low bits of bytes 0-3 and 4-7; of the last four, the low 4 bits in bytes 8-11 and the high 2
/// bits in the free bits of bytes 0-7.
DGAP_INLINE void unpack_scales(const std::uint8_t* p, std::uint8_t* scales, std::uint8_t* minima) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = p[i] & 63;
    minima[i] = p[i + 4] & 63;
    scales[i + 4] = static_cast<std::uint8_t>((p[i + 8] & 15) | ((p[i] >> 2) & 48));
    minima[i + 4] = static_cast<std::uint8_t>((p[i + 8] >> 4) | ((p[i + 4] >> 2) & 48));
  }
}

DGAP_MULTIVERSION void q4_k(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 144, y += 256) {
    const float d = half_at(x), dmin = half_at(x + 2);
    std::uint8_t scales[8], minima[8];
    unpack_scales(x + 4, scales, minima);
    for (int group = 0; group < 8; ++group) {
      const std::uint8_t* codes = x + 16 + 32 * (group / 2);
      const int shift = 4 * (group % 2);
      const float s = d * static_cast<float>(scales[group]);
      const float m = dmin * static_cast<float>(minima[group]);
      for (int i = 0; i < 32; ++i) {
        y[32 * group + i] = s * static_cast<float>((codes[i] >> shift) & 15) - m;
      }
    }
  }
}

DGAP_MULTIVERSION void q5_k(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 176, y += 256) {
    const float d = half_at(x), dmin = half_at(x + 2);
    std::uint8_t scales[8], minima[8];
    unpack_scales(x + 4, scales, minima);
    const std::uint8_t* high = x + 16;
    for (int group = 0; group < 8; ++group) {
      const std::uint8_t* codes = x + 48 + 32 * (group / 2);
      const int shift = 4 * (group % 2);
      const float s = d * static_cast<float>(scales[group]);
      const float m = dmin * static_cast<float>(minima[group]);
      for (int i = 0; i < 32; ++i) {
        const int q = ((codes[i] >> shift) & 15) | (((high[i] >> group) & 1) << 4);
        y[32 * group + i] = s * static_cast<float>(q) - m;
      }
    }
  }
}

DGAP_MULTIVERSION void q6_k(const std::uint8_t* x, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b, x += 210, y += 256) {
    const float d = half_at(x + 208);
    for (int group = 0; group < 8; ++group) {  // 32 elements; two scales
      const std::uint8_t* low = x + 64 * (group / 4) + 32 * (group % 2);
      const std::uint8_t* high = x + 128 + 32 * (group / 4);
      const int low_shift = 4 * (group % 4 / 2), high_shift = 2 * (group % 4);
      for (int i = 0; i < 32; ++i) {
        const int q = ((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4);
        const auto s = static_cast<std::int8_t>(x[192 + 2 * group + i / 16]);
        y[32 * group + i] = d * static_cast<float>(s) * static_cast<float>(q - 32);
      }
    }
  }
}

DGAP_MULTIVERSION void f16(const std::uint8_t* x, std::int64_t elements, float* y) {
  for (std::int64_t i = 0; i < elements; ++i) y[i] = half_at(x + 2 * i);
}

DGAP_MULTIVERSION void bf16(const std::uint8_t* x, std::int64_t elements, float* y) {
  for (std::int64_t i = 0; i < elements; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, x + 2 * i, sizeof bits);
    y[i] = base::from_bfloat16(bits);
  }
}

}  // namespace

void dequantize_row(GgufTensorType type, const std::byte* from, std::int64_t elements, float* to) {
  const auto* x = reinterpret_cast<const std::uint8_t*>(from);
  const std::int64_t blocks = elements / gguf_block(type).elements;
  switch (type) {
    case GgufTensorType::f32:
      std::memcpy(to, x, static_cast<std::size_t>(elements) * sizeof(float));
      return;
    case GgufTensorType::f16:
      return f16(x, blocks, to);
    case GgufTensorType::bf16:
      return bf16(x, blocks, to);
    case GgufTensorType::q4_0:
      return q4_0(x, blocks, to);
    case GgufTensorType::q4_1:
      return q4_1(x, blocks, to);
    case GgufTensorType::q5_0:
      return q5_0(x, blocks, to);
    case GgufTensorType::q5_1:
      return q5_1(x, blocks, to);
    case GgufTensorType::q8_0:
      return q8_0(x, blocks, to);
    case GgufTensorType::q2_k:
      return q2_k(x, blocks, to);
    case GgufTensorType::q3_k:
      return q3_k(x, blocks, to);
    case GgufTensorType::q4_k:
      return q4_k(x, blocks, to);
    case GgufTensorType::q5_k:
      return q5_k(x, blocks, to);
    case GgufTensorType::q6_k:
      return q6_k(x, blocks, to);
    case GgufTensorType::iq4_nl:
      return iq4_nl(x, blocks, to);
  }
  throw base::FailedError("dequantize_row: unknown tensor type");
}

}  // namespace dgap::engine
