#pragma once
// Small GGUF files made by the tests themselves: a writer for any metadata and tensors, and a whole
// llama model with random weights and a toy byte-level BPE tokenizer. Independent of the reader: it
// shares only the list of type numbers with it. Link dgap::base and dgap::engine_formats.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "engine/formats/gguf_types.hpp"

namespace dgap::testing {

using engine::GgufTensorType;
using engine::GgufValueType;

/// Plain bytes of a number, little-endian.
template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Length and bytes, as GGUF writes strings.
inline std::string gguf_string(std::string_view text) {
  return bytes_of(std::uint64_t{text.size()}) + std::string(text);
}

/// `values` (whole blocks) in a tensor type's own format: F32, F16, BF16, Q8_0 or Q4_1.
inline std::string encode_values(GgufTensorType type, std::span<const float> values) {
  std::string out;
  if (type == GgufTensorType::f32) {
    for (const float x : values) out += bytes_of(x);
  } else if (type == GgufTensorType::f16) {
    for (const float x : values) out += bytes_of(base::to_half(x));
  } else if (type == GgufTensorType::bf16) {
    for (const float x : values) out += bytes_of(base::to_bfloat16(x));
  }
  for (std::size_t at = 0; at + 32 <= values.size(); at += 32) {
    const auto block = values.subspan(at, 32);
    const float low = *std::min_element(block.begin(), block.end());
    const float high = *std::max_element(block.begin(), block.end());
    if (type == GgufTensorType::q8_0) {
      const float d = std::max(std::abs(low), std::abs(high)) / 127.0f;
      out += bytes_of(base::to_half(d));
      for (const float x : block) {
        out += static_cast<char>(static_cast<std::int8_t>(std::lround(d > 0.0f ? x / d : 0.0f)));
      }
    } else if (type == GgufTensorType::q4_1) {
      const float d = (high - low) / 15.0f;
      out += bytes_of(base::to_half(d)) + bytes_of(base::to_half(low));
      const auto code = [&](float x) {
        return static_cast<int>(std::lround(d > 0.0f ? (x - low) / d : 0.0f));
      };
      for (std::size_t i = 0; i < 16; ++i) {
        out += static_cast<char>(code(block[i]) | code(block[i + 16]) << 4);
      }
    }
  }
  return out;
}

/// Writes a GGUF file piece by piece. Nothing is checked, so that damaged files can be made too.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // also write general.alignment when it is not 32

  void value(std::string_view key, GgufValueType type, std::string_view bytes) {
    metadata_ += gguf_string(key) + bytes_of(static_cast<std::uint32_t>(type)) + std::string(bytes);
    ++values_;
  }
  void string(std::string_view key, std::string_view text) {
    value(key, GgufValueType::string, gguf_string(text));
  }
  void u32(std::string_view key, std::uint32_t number) {
    value(key, GgufValueType::uint32, bytes_of(number));
  }
  void f32(std::string_view key, float number) {
    value(key, GgufValueType::float32, bytes_of(number));
  }
  void boolean(std::string_view key, bool flag) {
    value(key, GgufValueType::boolean, bytes_of(static_cast<std::uint8_t>(flag)));
  }
  void strings(std::string_view key, const std::vector<std::string>& list) {
    std::string bytes = array_head(GgufValueType::string, list.size());
    for (const std::string& text : list) bytes += gguf_string(text);
    value(key, GgufValueType::array, bytes);
  }
  void integers(std::string_view key, const std::vector<std::int32_t>& list) {
    std::string bytes = array_head(GgufValueType::int32, list.size());
    for (const std::int32_t number : list) bytes += bytes_of(number);
    value(key, GgufValueType::array, bytes);
  }

  /// `shape`: length of a row first. Bytes go after those of the tensors before, aligned.
  void tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
              std::string_view bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    tensor_at(name, shape, type, data_.size());
    data_ += bytes;
  }
  void tensor(std::string_view name, const std::vector<std::uint64_t>& shape, GgufTensorType type,
              std::span<const float> values) {
    tensor(name, shape, static_cast<std::uint32_t>(type), encode_values(type, values));
  }
  /// An entry of the directory alone.
  void tensor_at(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                 std::uint64_t offset) {
    directory_ += gguf_string(name) + bytes_of(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t size : shape) directory_ += bytes_of(size);
    directory_ += bytes_of(type) + bytes_of(offset);
    ++tensors_;
  }

  std::string finish() const {
    std::string file = "GGUF" + bytes_of(version) + bytes_of(tensors_) + bytes_of(values_);
    file += metadata_ + directory_;
    if (!data_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data_;
  }
  /// Bytes before the tensors' own, without the padding.
  std::size_t head_size() const { return 24 + metadata_.size() + directory_.size(); }

  static std::string array_head(GgufValueType element, std::uint64_t count) {
    return bytes_of(static_cast<std::uint32_t>(element)) + bytes_of(count);
  }

 private:
  std::string metadata_, directory_, data_;
  std::uint64_t values_ = 0, tensors_ = 0;
};

/// A byte as byte-level vocabularies write it (GPT-2): printable ones as they are, others as
/// U+0100 and following.
inline std::string byte_as_text(unsigned byte) {
  const auto printable = [](unsigned b) {
    return (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad && b < 0x100);
  };
  unsigned code_point = byte;
  if (!printable(byte)) {
    code_point = 0x100;
    for (unsigned b = 0; b < byte; ++b) code_point += printable(b) ? 0 : 1;
  }
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

inline std::string bytes_as_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += byte_as_text(static_cast<unsigned char>(c));
  return text;
}

/// Tokens 0-2 are special (<|endoftext|>, <|im_start|>, <|im_end|>), 3-258 the bytes 0-255, then
/// one token per merge, then unused ones up to the wanted size.
struct ToyTokenizer {
  std::string pretokenizer = "smollm";
  std::vector<std::pair<std::string, std::string>> merges = {
      {" ", "t"}, {"h", "e"},   {" t", "he"}, {" ", "a"}, {"i", "n"},  {"e", "r"},      {"n", "d"},
      {"o", "u"}, {" a", "nd"}, {"in", "g"},  {"r", "e"}, {"o", "n"},  {" ", "s"},      {" ", "w"},
      {"a", "t"}, {"e", "s"},   {"i", "t"},   {" ", "o"}, {" o", "f"}, {" t", "o"},     {"e", "n"},
      {" ", "c"}, {" ", "b"},   {"o", "r"},   {"i", "s"}, {"l", "l"},  {"he", "r"},     {" ", "h"},
      {" ", "f"}, {"a", "n"},   {" ", "p"},   {"e", "d"}, {" ", "in"}, {"\xc3", "\xa9"}};

  std::int64_t size() const { return 3 + 256 + static_cast<std::int64_t>(merges.size()); }

  /// `vocabulary`: tokens in all, at least size().
  void write(GgufWriter& writer, std::int64_t vocabulary) const {
    std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, lines;
    for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(byte_as_text(byte));
    for (const auto& [left, right] : merges) {
      tokens.push_back(bytes_as_text(left + right));
      lines.push_back(bytes_as_text(left) + " " + bytes_as_text(right));
    }
    std::vector<std::int32_t> types(tokens.size(), 1);
    std::fill_n(types.begin(), 3, 3);
    for (std::int64_t id = size(); id < vocabulary; ++id) {
      tokens.push_back("[unused" + std::to_string(id) + "]");
      types.push_back(5);
    }
    writer.string("tokenizer.ggml.model", "gpt2");
    writer.string("tokenizer.ggml.pre", pretokenizer);
    writer.strings("tokenizer.ggml.tokens", tokens);
    writer.integers("tokenizer.ggml.token_type", types);
    writer.strings("tokenizer.ggml.merges", lines);
    writer.u32("tokenizer.ggml.bos_token_id", 1);
    writer.u32("tokenizer.ggml.eos_token_id", 2);
    writer.boolean("tokenizer.ggml.add_bos_token", false);
  }
};

/// A llama model. Rows of quantised types must be whole blocks: hidden, intermediate and
/// heads * head_dim multiples of 32 for Q8_0 and Q4_1.
struct TinyModel {
  int layers = 2, heads = 4, kv_heads = 2, head_dim = 16;
  std::int64_t hidden = 64, intermediate = 128;
  std::int64_t vocabulary = 320;  // at least tokenizer.size()
  std::uint32_t context_length = 4096;
  float rope_theta = 10000.0f, rms_epsilon = 1e-5f;
  bool tied = true;
  GgufTensorType type = GgufTensorType::f32;  // of matrices; norms are F32
  std::uint64_t seed = 1;
  ToyTokenizer tokenizer = {};
};

/// Values of a tensor by its GGUF name, f32, before they are rounded to the model's type, in the
/// Hugging Face order of rows. Matrices are normal with standard deviation 1 / sqrt(columns), the
/// embedding .5 (so that logits have one of .5 sqrt(hidden) when tied), norms 1 + .1 normal.
inline std::vector<float> tiny_values(const TinyModel& model, std::string_view name,
                                      std::int64_t rows, std::int64_t columns) {
  base::Random random(model.seed, name);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  const bool norm = name.find("norm") != std::string_view::npos;
  const double scale =
      norm ? 0.1
           : (name == "token_embd.weight" ? 0.5 : 1.0 / std::sqrt(static_cast<double>(columns)));
  for (float& x : values) x = static_cast<float>((norm ? 1.0 : 0.0) + scale * random.normal());
  return values;
}

/// Rows of q or k from the Hugging Face order to GGUF's: within a head, row p * head_dim / 2 + i
/// goes to 2 i + p.
inline std::vector<float> interleave_heads(const std::vector<float>& values, int head_dim,
                                           std::int64_t columns) {
  std::vector<float> out(values.size());
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row / head_dim, in_head = row % head_dim;
    const std::int64_t p = in_head / (head_dim / 2), i = in_head % (head_dim / 2);
    std::copy_n(values.begin() + row * columns, columns,
                out.begin() + (head * head_dim + 2 * i + p) * columns);
  }
  return out;
}

inline void write_tiny_metadata(GgufWriter& writer, const TinyModel& model) {
  writer.string("general.architecture", "llama");
  writer.string("general.name", "tiny");
  writer.string("general.license", "apache-2.0");
  writer.u32("llama.block_count", static_cast<std::uint32_t>(model.layers));
  writer.u32("llama.context_length", model.context_length);
  writer.u32("llama.embedding_length", static_cast<std::uint32_t>(model.hidden));
  writer.u32("llama.feed_forward_length", static_cast<std::uint32_t>(model.intermediate));
  writer.u32("llama.attention.head_count", static_cast<std::uint32_t>(model.heads));
  writer.u32("llama.attention.head_count_kv", static_cast<std::uint32_t>(model.kv_heads));
  if (model.hidden != std::int64_t{model.heads} * model.head_dim) {
    writer.u32("llama.attention.key_length", static_cast<std::uint32_t>(model.head_dim));
    writer.u32("llama.attention.value_length", static_cast<std::uint32_t>(model.head_dim));
  }
  writer.u32("llama.rope.dimension_count", static_cast<std::uint32_t>(model.head_dim));
  writer.f32("llama.rope.freq_base", model.rope_theta);
  writer.f32("llama.attention.layer_norm_rms_epsilon", model.rms_epsilon);
  writer.u32("llama.vocab_size", static_cast<std::uint32_t>(model.vocabulary));
}

inline void write_tiny_tensors(GgufWriter& writer, const TinyModel& model) {
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns,
                       bool rotated) {
    std::vector<float> values = tiny_values(model, name, rows, columns);
    if (rotated) values = interleave_heads(values, model.head_dim, columns);
    const auto width = static_cast<std::uint64_t>(columns),
               height = static_cast<std::uint64_t>(rows);
    if (rows == 1) {
      writer.tensor(name, {width}, GgufTensorType::f32, values);
    } else {
      writer.tensor(name, {width, height}, model.type, values);
    }
  };
  const std::int64_t q = std::int64_t{model.heads} * model.head_dim;
  const std::int64_t kv = std::int64_t{model.kv_heads} * model.head_dim;
  add("token_embd.weight", model.vocabulary, model.hidden, false);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    add(prefix + "attn_norm.weight", 1, model.hidden, false);
    add(prefix + "attn_q.weight", q, model.hidden, true);
    add(prefix + "attn_k.weight", kv, model.hidden, true);
    add(prefix + "attn_v.weight", kv, model.hidden, false);
    add(prefix + "attn_output.weight", model.hidden, q, false);
    add(prefix + "ffn_norm.weight", 1, model.hidden, false);
    add(prefix + "ffn_gate.weight", model.intermediate, model.hidden, false);
    add(prefix + "ffn_up.weight", model.intermediate, model.hidden, false);
    add(prefix + "ffn_down.weight", model.hidden, model.intermediate, false);
  }
  add("output_norm.weight", 1, model.hidden, false);
  if (!model.tied) add("output.weight", model.vocabulary, model.hidden, false);
}

/// The whole file.
inline std::string tiny_gguf(const TinyModel& model = {}) {
  GgufWriter writer;
  write_tiny_metadata(writer, model);
  model.tokenizer.write(writer, model.vocabulary);
  write_tiny_tensors(writer, model);
  return writer.finish();
}

/// A file of given bytes in the temporary folder, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes, std::string_view suffix = ".gguf") {
    static int counter = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("dgap-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++)))
                .string() +
            std::string(suffix);
    write(bytes);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dgap::testing
