#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dgap::engine {

/// Number formats of tensors that are read here; the values are GGUF's.
enum class GgufTensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  bf16 = 30,
};

/// Elements come in blocks along a row: `elements` of them in `bytes` bytes.
struct GgufBlock {
  std::string_view name;
  std::int64_t elements;
  std::int64_t bytes;
};

/// The block of a type; nullptr when `type` is not one of GgufTensorType.
const GgufBlock* find_gguf_block(std::uint32_t type);
const GgufBlock& gguf_block(GgufTensorType type);

/// "19 (IQ1_S)" for types that exist but are not read here, "77 (unknown)" for others.
std::string gguf_type_name(std::uint32_t type);

/// "F32, F16, ... and BF16".
std::string supported_gguf_types();

/// Types of metadata values; the values are GGUF's.
enum class GgufValueType : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// "uint32"; "unknown" for a value that is none of them.
std::string_view gguf_value_type_name(GgufValueType type);

/// Bytes of one value; 0 for strings, arrays and unknown types.
std::size_t gguf_value_size(GgufValueType type);

/// `text` from a file in quotes, safe to print: cut after 64 bytes, and bytes that are not
/// printable become '?' (all of the non-ASCII ones, when the text is not valid UTF-8).
std::string in_quotes(std::string_view text);

}  // namespace dgap::engine
