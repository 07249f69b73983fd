#include "engine/formats/gguf_parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/formats/context_length.hpp"

namespace dgap::engine {
namespace {

constexpr std::array<std::string_view, 2> kArchitectures{"llama", "qwen2"};

/// Keys, without the architecture, that are read, or that say nothing about what the model
/// computes.
constexpr std::array<std::string_view, 20> kUnderstood{
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",  // as older files name the factor
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.finetuned",
};

/// Keys that are harmless with this value, as GgufFile::describe writes it.
struct Neutral {
  std::string_view key, value;
};
constexpr std::array<Neutral, 7> kNeutral{{
    {"expert_count", "0"},
    {"expert_used_count", "0"},
    {"attention.causal", "true"},
    {"tensor_data_layout", "'Meta AI original pth'"},
    {"rope.scaling.yarn_ext_factor", "1"},
    {"rope.scaling.yarn_attn_factor", "1"},
    {"rope.scaling.yarn_log_multiplier", "0"},
}};

class Parameters {
 public:
  explicit Parameters(const GgufFile& file)
      : file_(file), architecture_(file.string("general.architecture")) {
    if (std::ranges::find(kArchitectures, architecture_) != kArchitectures.end()) return;
    throw base::UsageError(file_.path() + ": architecture " + in_quotes(architecture_) +
                           " is not supported in this version; supported are " +
                           base::join(kArchitectures));
  }

  HyperParameters read() const {
    refuse_unknown_keys();
    HyperParameters p;
    p.architecture = architecture_;
    p.name = text_or("general.name", "");
    p.license = text_or("general.license", "");
    p.hidden_size = positive("embedding_length");
    p.intermediate_size = positive("feed_forward_length");
    p.context_length = positive("context_length");
    p.layers = positive_int("block_count");
    read_heads(p);
    p.rms_epsilon = positive_real("attention.layer_norm_rms_epsilon");
    read_rope(p);
    if (file_.has(full("attention.sliding_window")) &&
        file_.integer(full("attention.sliding_window")) != 0)
      p.sliding_window = positive("attention.sliding_window");
    read_vocabulary(p);
    p.attention_bias = has_layer_tensor("attn_q.bias") || has_layer_tensor("attn_k.bias") ||
                       has_layer_tensor("attn_v.bias") || architecture_ == "qwen2";
    p.output_bias = has_layer_tensor("attn_output.bias");
    return p;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(file_.path() + ": " + what);
  }

  std::string full(std::string_view key) const {
    return std::string(architecture_) + "." + std::string(key);
  }

  /// A key that is silently ignored may be one that changes every logit.
  void refuse_unknown_keys() const {
    const std::string prefix = full("");
    for (const std::string_view key : file_.keys()) {
      if (!key.starts_with(prefix) || understood(key.substr(prefix.size()))) continue;
      throw base::UsageError(file_.path() + ": " + in_quotes(key) + " is " + file_.describe(key) +
                             ", not supported in this version");
    }
  }

  bool understood(std::string_view key) const {
    if (std::ranges::find(kUnderstood, key) != kUnderstood.end()) return true;
    if (key == "attention.sliding_window")  // Mistral's, in every layer
      return architecture_ == "llama" || file_.describe(full(key)) == "0";
    for (const Neutral& neutral : kNeutral)
      if (key == neutral.key) return file_.describe(full(key)) == neutral.value;
    return false;
  }

  bool has_layer_tensor(std::string_view name) const {
    return file_.find_tensor("blk.0." + std::string(name)) != nullptr;
  }

  std::string text_or(std::string_view key, std::string_view fallback) const {
    return std::string(file_.has(key) ? file_.string(key) : fallback);
  }

  /// These take keys without the architecture.
  std::int64_t positive(std::string_view key) const {
    const std::int64_t value = file_.integer(full(key));
    if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) {
      damaged(in_quotes(full(key)) + " is " + std::to_string(value) +
              "; it must lie in 1 .. 2147483647");
    }
    return value;
  }

  int positive_int(std::string_view key) const { return static_cast<int>(positive(key)); }

  double positive_real(std::string_view key) const {
    const double value = file_.real(full(key));
    if (!std::isfinite(value) || value <= 0.0) {
      damaged(in_quotes(full(key)) + " is " + file_.describe(full(key)) + "; it must be positive");
    }
    return value;
  }

  double positive_real(std::string_view key, double otherwise) const {
    return file_.has(full(key)) ? positive_real(key) : otherwise;
  }

  void read_heads(HyperParameters& p) const {
    p.heads = positive_int("attention.head_count");
    p.kv_heads = file_.has(full("attention.head_count_kv"))
                     ? positive_int("attention.head_count_kv")
                     : p.heads;
    if (p.heads % p.kv_heads != 0) {
      damaged(in_quotes(full("attention.head_count")) + " " + std::to_string(p.heads) +
              " is not a multiple of " + in_quotes(full("attention.head_count_kv")) + " " +
              std::to_string(p.kv_heads));
    }
    if (file_.has(full("attention.key_length"))) {
      p.head_dim = positive_int("attention.key_length");
    } else {
      if (p.hidden_size % p.heads != 0) {
        damaged(in_quotes(full("embedding_length")) + " " + std::to_string(p.hidden_size) +
                " is not a multiple of " + in_quotes(full("attention.head_count")) + " " +
                std::to_string(p.heads) + ", and " + in_quotes(full("attention.key_length")) +
                " is missing");
      }
      p.head_dim = static_cast<int>(p.hidden_size / p.heads);
    }
    if (p.head_dim % 2 != 0) {
      damaged("the head dimension " + std::to_string(p.head_dim) + " is odd; RoPE rotates pairs");
    }
    must_equal_head_dim(full("attention.value_length"), p.head_dim);
    must_equal_head_dim(full("rope.dimension_count"), p.head_dim);
  }

  void must_equal_head_dim(std::string_view key, int head_dim) const {
    if (!file_.has(key) || file_.integer(key) == head_dim) return;
    throw base::UsageError(file_.path() + ": " + in_quotes(key) + " is " + file_.describe(key) +
                           ", but the head dimension is " + std::to_string(head_dim) +
                           "; a difference is not supported in this version");
  }

  void read_rope(HyperParameters& p) const {
    RopeParameters& rope = p.rope;
    if (file_.has(full("rope.freq_base"))) {
      rope.theta = positive_real("rope.freq_base");
    } else {
      p.notes.push_back(in_quotes(full("rope.freq_base")) + " is missing: 10000");
    }
    rope.factor = positive_real("rope.scaling.factor", positive_real("rope.scale_linear", 1.0));
    const std::string type = text_or(full("rope.scaling.type"), "linear");
    if (type == "yarn") {
      read_yarn(p);
    } else if (type == "linear" && rope.factor != 1.0) {
      rope.scaling = RopeParameters::Scaling::linear;
    } else if (type == "none") {
      rope.factor = 1.0;
    } else if (type != "linear") {
      throw base::UsageError(file_.path() + ": " + in_quotes(full("rope.scaling.type")) + " is " +
                             in_quotes(type) + ", not supported; supported are none, linear, yarn");
    }
    if (type != "yarn" && positive_real("rope.scaling.attn_factor", 1.0) != 1.0) {
      throw base::UsageError(file_.path() + ": " + in_quotes(full("rope.scaling.attn_factor")) +
                             " is supported with YaRN alone");
    }
    read_divisors(p);
    extend_context(p);
  }

  /// llama.cpp multiplies arXiv:2309.00071's attention factor by attn_factor.
  void read_yarn(HyperParameters& p) const {
    RopeParameters& rope = p.rope;
    rope.scaling = RopeParameters::Scaling::yarn;
    rope.original_context = file_.has(full("rope.scaling.original_context_length"))
                                ? positive("rope.scaling.original_context_length")
                                : p.context_length;
    rope.beta_fast = positive_real("rope.scaling.yarn_beta_fast", rope.beta_fast);
    rope.beta_slow = positive_real("rope.scaling.yarn_beta_slow", rope.beta_slow);
    if (file_.has(full("rope.scaling.attn_factor")))
      rope.attention_factor = positive_real("rope.scaling.attn_factor") *
                              (rope.factor > 1.0 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0);
  }

  void read_divisors(HyperParameters& p) const {
    const GgufFile::Tensor* tensor = file_.find_tensor(kRopeDivisors);
    if (tensor == nullptr) return;
    if (tensor->elements() != p.head_dim / 2 || tensor->type != GgufTensorType::f32)
      damaged(in_quotes(kRopeDivisors) + " must hold " + std::to_string(p.head_dim / 2) +
              " values of type F32, one per pair of channels");
    if (p.rope.scaling == RopeParameters::Scaling::yarn)
      throw base::UsageError(file_.path() + ": " + in_quotes(kRopeDivisors) +
                             " together with YaRN is not supported in this version");
    std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    for (const float value : values)
      if (!std::isfinite(value) || value <= 0.0f)
        damaged(in_quotes(kRopeDivisors) + " holds " + base::number(value) +
                "; it must be positive");
    p.rope.divisors.assign(values.begin(), values.end());
  }

  void read_vocabulary(HyperParameters& p) const {
    const GgufFile::Tensor* embedding = file_.find_tensor("token_embd.weight");
    if (embedding == nullptr) damaged("the tensor 'token_embd.weight' is missing");
    p.vocab_size = embedding->shape[1];
    p.tied_embeddings = file_.find_tensor("output.weight") == nullptr;
    if (p.vocab_size > std::numeric_limits<std::int32_t>::max()) {
      damaged("'token_embd.weight' has " + std::to_string(p.vocab_size) + " rows");
    }
    const std::string key = full("vocab_size");
    if (file_.has(key) && file_.integer(key) != p.vocab_size) {
      damaged(in_quotes(key) + " is " + file_.describe(key) + ", but 'token_embd.weight' has " +
              std::to_string(p.vocab_size) + " rows");
    }
  }

  const GgufFile& file_;
  std::string_view architecture_;
};

}  // namespace

HyperParameters read_gguf_parameters(const GgufFile& file) { return Parameters(file).read(); }

}  // namespace dgap::engine
