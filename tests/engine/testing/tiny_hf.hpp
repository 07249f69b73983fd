#pragma once
// Small Hugging Face folders made by the tests themselves, with the values of tiny_gguf.hpp's
// models. Independent of the reader.
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::testing {

/// Writes safetensors files. Nothing is checked, so that damaged files can be made too.
class SafetensorsWriter {
 public:
  void tensor(const std::string& name, const std::string& dtype,
              const std::vector<std::int64_t>& shape, std::string_view bytes) {
    entry(name, dtype, shape, data_.size(), data_.size() + bytes.size());
    data_ += bytes;
  }
  /// An entry of the header alone.
  void entry(const std::string& name, const std::string& dtype,
             const std::vector<std::int64_t>& shape, std::size_t begin, std::size_t end) {
    std::string sizes;
    for (const std::int64_t size : shape)
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    header_ += (header_.empty() ? "\"" : ",\"") + name + "\":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + sizes + "],\"data_offsets\":[" + std::to_string(begin) + "," +
               std::to_string(end) + "]}";
  }
  std::string finish() const { return file("{" + header_ + "}", data_); }

  static std::string file(const std::string& header, const std::string& data) {
    return bytes_of(std::uint64_t{header.size()}) + header + data;
  }

 private:
  std::string header_, data_;
};

/// A folder in the temporary folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("dgap-test-folder-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directory(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// The tensors of `model` under their Hugging Face names. `biases`: of q, k and v (Qwen2).
inline std::vector<HfTensor> hf_tensors(const TinyModel& model, bool biases = false) {
  std::vector<HfTensor> list;
  const auto add = [&](const std::string& name, const std::string& gguf, std::int64_t rows,
                       std::int64_t columns) {
    std::vector<std::int64_t> shape{rows, columns};
    if (rows == 1) shape = {columns};
    list.push_back({name, shape, tiny_values(model, gguf, rows, columns)});
  };
  const std::int64_t q = std::int64_t{model.heads} * model.head_dim;
  const std::int64_t kv = std::int64_t{model.kv_heads} * model.head_dim;
  add("model.embed_tokens.weight", "token_embd.weight", model.vocabulary, model.hidden);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string to = "model.layers." + std::to_string(layer) + ".";
    const std::string from = "blk." + std::to_string(layer) + ".";
    add(to + "input_layernorm.weight", from + "attn_norm.weight", 1, model.hidden);
    add(to + "self_attn.q_proj.weight", from + "attn_q.weight", q, model.hidden);
    add(to + "self_attn.k_proj.weight", from + "attn_k.weight", kv, model.hidden);
    add(to + "self_attn.v_proj.weight", from + "attn_v.weight", kv, model.hidden);
    if (biases) {
      add(to + "self_attn.q_proj.bias", from + "attn_q.bias", 1, q);
      add(to + "self_attn.k_proj.bias", from + "attn_k.bias", 1, kv);
      add(to + "self_attn.v_proj.bias", from + "attn_v.bias", 1, kv);
    }
    add(to + "self_attn.o_proj.weight", from + "attn_output.weight", model.hidden, q);
    add(to + "post_attention_layernorm.weight", from + "ffn_norm.weight", 1, model.hidden);
    add(to + "mlp.gate_proj.weight", from + "ffn_gate.weight", model.intermediate, model.hidden);
    add(to + "mlp.up_proj.weight", from + "ffn_up.weight", model.intermediate, model.hidden);
    add(to + "mlp.down_proj.weight", from + "ffn_down.weight", model.hidden, model.intermediate);
  }
  add("model.norm.weight", "output_norm.weight", 1, model.hidden);
  if (!model.tied) add("lm_head.weight", "output.weight", model.vocabulary, model.hidden);
  return list;
}

/// A safetensors file of tensors in `type`: F32, F16 or BF16.
inline std::string safetensors(const std::vector<HfTensor>& tensors,
                               GgufTensorType type = GgufTensorType::f32) {
  SafetensorsWriter writer;
  const std::string dtype(engine::gguf_block(type).name);
  for (const HfTensor& tensor : tensors)
    writer.tensor(tensor.name, dtype, tensor.shape, encode_values(type, tensor.values));
  return writer.finish();
}

/// Members of config.json as JSON text, by key.
using HfConfig = std::map<std::string, std::string>;

inline HfConfig hf_config(const TinyModel& model, const std::string& architecture,
                          const std::string& type) {
  return {{"architectures", "[\"" + architecture + "\"]"},
          {"model_type", "\"" + type + "\""},
          {"vocab_size", std::to_string(model.vocabulary)},
          {"hidden_size", std::to_string(model.hidden)},
          {"intermediate_size", std::to_string(model.intermediate)},
          {"num_hidden_layers", std::to_string(model.layers)},
          {"num_attention_heads", std::to_string(model.heads)},
          {"num_key_value_heads", std::to_string(model.kv_heads)},
          {"head_dim", std::to_string(model.head_dim)},
          {"max_position_embeddings", std::to_string(model.context_length)},
          {"rms_norm_eps", "1e-05"},
          {"rope_theta", "10000.0"},
          {"hidden_act", "\"silu\""},
          {"tie_word_embeddings", model.tied ? "true" : "false"},
          {"torch_dtype", "\"float32\""}};
}
inline HfConfig llama_config(const TinyModel& model = {}) {
  return hf_config(model, "LlamaForCausalLM", "llama");
}

inline std::string json_text(const HfConfig& config) {
  std::string text = "{";
  for (const auto& [key, value] : config)
    text += (text.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
  return text + "}";
}

/// config.json and model.safetensors.
inline void write_hf(const TemporaryFolder& folder, const TinyModel& model,
                     GgufTensorType type = GgufTensorType::f32) {
  folder.write("config.json", json_text(llama_config(model)));
  folder.write("model.safetensors", safetensors(hf_tensors(model), type));
}

}  // namespace dgap::testing
