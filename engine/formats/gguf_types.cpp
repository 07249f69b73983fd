#include "engine/formats/gguf_types.hpp"

#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
namespace {

struct Entry {
  GgufTensorType type;
  GgufBlock block;
};

constexpr std::array<Entry, 14> kBlocks{{
    {GgufTensorType::f32, {"F32", 1, 4}},
    {GgufTensorType::f16, {"F16", 1, 2}},
    {GgufTensorType::q4_0, {"Q4_0", 32, 18}},
    {GgufTensorType::q4_1, {"Q4_1", 32, 20}},
    {GgufTensorType::q5_0, {"Q5_0", 32, 22}},
    {GgufTensorType::q5_1, {"Q5_1", 32, 24}},
    {GgufTensorType::q8_0, {"Q8_0", 32, 34}},
    {GgufTensorType::q2_k, {"Q2_K", 256, 84}},
    {GgufTensorType::q3_k, {"Q3_K", 256, 110}},
    {GgufTensorType::q4_k, {"Q4_K", 256, 144}},
    {GgufTensorType::q5_k, {"Q5_K", 256, 176}},
    {GgufTensorType::q6_k, {"Q6_K", 256, 210}},
    {GgufTensorType::iq4_nl, {"IQ4_NL", 32, 18}},
    {GgufTensorType::bf16, {"BF16", 1, 2}},
}};

/// Types that other tools write and this one does not read, so that errors can name them.
struct Unread {
  std::uint32_t type;
  std::string_view name;
};

constexpr std::array<Unread, 25> kUnread{{
    {4, "Q4_2"},    {5, "Q4_3"},     {9, "Q8_1"},      {15, "Q8_K"},     {16, "IQ2_XXS"},
    {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},    {21, "IQ3_S"},    {22, "IQ2_S"},
    {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},      {26, "I32"},      {27, "I64"},
    {28, "F64"},    {29, "IQ1_M"},   {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"},
    {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},    {40, "NVFP4"},    {41, "Q1_0"},
}};

constexpr std::array<std::string_view, 13> kValueNames{
    "uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
    "boolean", "string", "array",  "uint64", "int64",  "float64"};
constexpr std::array<std::size_t, 13> kValueSizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

}  // namespace

const GgufBlock* find_gguf_block(std::uint32_t type) {
  for (const Entry& entry : kBlocks) {
    if (static_cast<std::uint32_t>(entry.type) == type) return &entry.block;
  }
  return nullptr;
}

const GgufBlock& gguf_block(GgufTensorType type) {
  const GgufBlock* block = find_gguf_block(static_cast<std::uint32_t>(type));
  if (block == nullptr) {
    throw base::FailedError("tensor type " + gguf_type_name(static_cast<std::uint32_t>(type)) +
                            " has no block format here");
  }
  return *block;
}

std::string gguf_type_name(std::uint32_t type) {
  std::string_view name = "unknown";
  if (const GgufBlock* block = find_gguf_block(type)) name = block->name;
  for (const Unread& entry : kUnread) {
    if (entry.type == type) name = entry.name;
  }
  return std::to_string(type) + " (" + std::string(name) + ")";
}

std::string supported_gguf_types() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kBlocks) names.push_back(entry.block.name);
  return base::join(names);
}

std::string_view gguf_value_type_name(GgufValueType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kValueNames.size() ? kValueNames[index] : "unknown";
}

std::size_t gguf_value_size(GgufValueType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kValueSizes.size() ? kValueSizes[index] : 0;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const bool cut = text.size() > kLongest;
  if (cut) text = text.substr(0, base::valid_utf8_prefix(text.substr(0, kLongest)));
  const bool utf8 = base::valid_utf8_prefix(text) == text.size();
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool printable = byte >= 0x20 && byte != 0x7f && (byte < 0x80 || utf8);
    out += printable ? c : '?';
  }
  return out + (cut ? "...'" : "'");
}

}  // namespace dgap::engine
