#include "engine/formats/hf_config.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/formats/context_length.hpp"
#include "engine/formats/gguf_types.hpp"
#include "engine/formats/hf_rope.hpp"
#include "engine/formats/json_values.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {
namespace {

using nlohmann::json;

constexpr std::size_t kDepth = 8;
constexpr std::int64_t kMaxLayers = 4096;

enum class Family { llama, mistral, qwen2 };
struct Architecture {
  std::string_view name, model_type;
  Family family;
};
constexpr std::array<Architecture, 3> kArchitectures{{
    {"LlamaForCausalLM", "llama", Family::llama},
    {"MistralForCausalLM", "mistral", Family::mistral},
    {"Qwen2ForCausalLM", "qwen2", Family::qwen2},
}};

/// Keys that say nothing about logits: training, generation, bookkeeping.
constexpr auto kIgnored = std::to_array<std::string_view>({
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "attention_dropout",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "do_sample",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "num_beams",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "prefix",
    "pretraining_tp",  // how products were split; the same sums
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "use_bfloat16",
    "use_cache",
});

/// Keys that are harmless with this value alone.
struct Neutral {
  std::string_view key, value;
};
constexpr auto kNeutral = std::to_array<Neutral>({
    {"mlp_bias", "false"},
    {"rope_interleaved", "false"},
    {"partial_rotary_factor", "1.0"},
    {"is_decoder", "false"},
    {"is_encoder_decoder", "false"},
    {"add_cross_attention", "false"},
    {"cross_attention_hidden_size", "null"},
    {"tie_encoder_decoder", "false"},
    {"pruned_heads", "{}"},
    {"quantization_config", "null"},
});

class Config {
 public:
  Config(const json& value, const std::string& path) : values_(value, path, ""), path_(path) {}

  HyperParameters read() {
    const Architecture& architecture = find_architecture();
    family_ = architecture.family;
    HyperParameters p;
    p.architecture = architecture.model_type;
    p.vocab_size = values_.positive("vocab_size");
    p.hidden_size = values_.positive("hidden_size");
    p.intermediate_size = values_.positive("intermediate_size");
    p.layers = static_cast<int>(values_.integer("num_hidden_layers", 1, kMaxLayers));
    p.context_length = values_.positive("max_position_embeddings");
    p.tied_embeddings = values_.boolean("tie_word_embeddings", false);
    read_heads(p);
    if (values_.has("rms_norm_eps")) {
      p.rms_epsilon = values_.positive_real("rms_norm_eps");
    } else {
      p.rms_epsilon = 1e-6;
      p.notes.push_back(path_ + ": rms_norm_eps is missing: 1e-6");
    }
    read_biases(p);
    read_sliding_window(p);
    const std::string activation = values_.text("hidden_act", "silu");
    if (activation != "silu") unsupported("hidden_act", in_quotes(activation), "'silu'");
    p.rope = read_hf_rope(values_, p);
    extend_context(p);
    refuse_others();
    return p;
  }

 private:
  [[noreturn]] void unsupported(std::string_view key, const std::string& found,
                                const std::string& supported) const {
    throw base::UsageError(path_ + ": " + std::string(key) + " is " + found +
                           ", not supported in this version; supported is " + supported);
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(path_ + ": " + what);
  }

  const Architecture& find_architecture() {
    const std::vector<std::string> names = values_.texts("architectures");
    std::vector<std::string_view> known;
    for (const Architecture& architecture : kArchitectures) {
      known.push_back(architecture.name);
      if (names.size() != 1 || names[0] != architecture.name) continue;
      const std::string type = values_.text("model_type", architecture.model_type);
      if (type != architecture.model_type)
        damaged("model_type is " + in_quotes(type) + ", but architectures is " +
                in_quotes(names[0]));
      return architecture;
    }
    const std::vector<std::string_view> found(names.begin(), names.end());
    throw base::UsageError(path_ + ": architecture " + in_quotes(base::join(found)) +
                           " is not supported in this version; supported are " + base::join(known));
  }

  void read_heads(HyperParameters& p) {
    p.heads = static_cast<int>(values_.positive("num_attention_heads"));
    // Mistral's and Qwen2's defaults are fixed numbers; what was meant cannot be told.
    if (family_ != Family::llama && !values_.contains("num_key_value_heads"))
      damaged("num_key_value_heads is missing");
    p.kv_heads = static_cast<int>(
        values_.has("num_key_value_heads") ? values_.positive("num_key_value_heads") : p.heads);
    if (p.heads % p.kv_heads != 0)
      damaged("num_attention_heads " + std::to_string(p.heads) +
              " is not a multiple of num_key_value_heads " + std::to_string(p.kv_heads));
    if (values_.has("head_dim")) {
      p.head_dim = static_cast<int>(values_.positive("head_dim"));
    } else if (p.hidden_size % p.heads == 0) {
      p.head_dim = static_cast<int>(p.hidden_size / p.heads);
    } else {
      damaged("hidden_size " + std::to_string(p.hidden_size) +
              " is not a multiple of num_attention_heads " + std::to_string(p.heads) +
              ", and head_dim is missing");
    }
    if (p.head_dim % 2 != 0)
      damaged("the head dimension " + std::to_string(p.head_dim) + " is odd; RoPE rotates pairs");
  }

  /// Llama says whether there are biases; Qwen2 always has those of q, k and v, Mistral none.
  void read_biases(HyperParameters& p) {
    const bool implied = family_ == Family::qwen2;
    p.attention_bias = values_.boolean("attention_bias", implied);
    if (family_ != Family::llama && p.attention_bias != implied)
      unsupported("attention_bias", implied ? "false" : "true",
                  std::string(implied ? "true" : "false") + " for " + p.architecture);
    p.output_bias = family_ == Family::llama && p.attention_bias;
  }

  void read_sliding_window(HyperParameters& p) {
    if (family_ == Family::llama) return;
    bool windowed = family_ == Family::mistral;
    if (family_ == Family::qwen2) windowed = values_.boolean("use_sliding_window", false);
    if (family_ == Family::mistral && !values_.contains("sliding_window")) {
      p.sliding_window = 4096;
      p.notes.push_back(path_ + ": sliding_window is missing: 4096");
    } else if (values_.has("sliding_window")) {
      const std::int64_t window = values_.positive("sliding_window");
      if (windowed) p.sliding_window = window;
    } else if (family_ == Family::qwen2 && windowed) {
      damaged("use_sliding_window is true, but sliding_window is missing");
    }
    if (family_ == Family::qwen2) read_windowed_layers(p);
  }

  /// Qwen2: layers from max_window_layers on are windowed, unless layer_types says it one by one.
  void read_windowed_layers(HyperParameters& p) {
    const bool from_given = values_.has("max_window_layers");
    const std::int64_t from =
        from_given ? values_.integer("max_window_layers", 0, std::numeric_limits<int>::max()) : 0;
    if (values_.has("layer_types")) {
      const std::vector<std::string> types = values_.texts("layer_types");
      if (std::ssize(types) != std::int64_t{p.layers})
        damaged("layer_types has " + std::to_string(types.size()) + " entries for " +
                std::to_string(p.layers) + " layers");
      for (const std::string& type : types) {
        const bool sliding = type == "sliding_attention";
        if (!sliding && type != "full_attention")
          unsupported("layer_types", in_quotes(type), "full_attention and sliding_attention");
        if (sliding && p.sliding_window == 0)
          damaged("layer_types has sliding_attention, but there is no sliding window");
        p.windowed.push_back(sliding);
      }
    } else if (p.sliding_window > 0) {
      if (!from_given) damaged("use_sliding_window is true, but max_window_layers is missing");
      for (int i = 0; i < p.layers; ++i) p.windowed.push_back(i >= from);
    }
  }

  void refuse_others() {
    for (const auto& [key, value] : values_.value().items()) {
      if (values_.asked_for(key) || std::ranges::find(kIgnored, key) != kIgnored.end()) continue;
      const std::string text = shown(value);
      const auto neutral = std::ranges::find(kNeutral, std::string_view(key), &Neutral::key);
      if (value.is_null()) continue;
      if (neutral == kNeutral.end())
        throw base::UsageError(path_ + ": " + in_quotes(key) + " is " + text +
                               ", a key that is not known to this version; remove it if it does "
                               "not change what the model computes");
      if (text != neutral->value && !(text == "1" && neutral->value == "1.0"))
        unsupported(key, text, std::string(neutral->value));
    }
  }

  JsonValues values_;
  const std::string& path_;
  Family family_ = Family::llama;
};

}  // namespace

HyperParameters read_hf_config(std::string_view text, const std::string& path) {
  const json value = schemas::parse_json_object(text, path, kDepth);
  return Config(value, path).read();
}

}  // namespace dgap::engine
