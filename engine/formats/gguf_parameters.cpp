#include "engine/formats/gguf_parameters.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace dgap::engine {
namespace {

constexpr std::string_view kArchitecture = "llama";

/// Keys that are read, or that say nothing about what the model computes.
constexpr std::array<std::string_view, 13> kUnderstood{
    "llama.vocab_size",
    "llama.context_length",
    "llama.embedding_length",
    "llama.block_count",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.tensor_data_layout",
};

/// Keys that are harmless with this value, as GgufFile::describe writes it.
struct Neutral {
  std::string_view key, value;
};
constexpr std::array<Neutral, 7> kNeutral{{
    {"llama.rope.scaling.type", "'none'"},
    {"llama.rope.scaling.factor", "1"},
    {"llama.rope.scale_linear", "1"},
    {"llama.expert_count", "0"},
    {"llama.expert_used_count", "0"},
    {"llama.attention.causal", "true"},
    {"llama.attention.sliding_window", "0"},
}};

class Parameters {
 public:
  explicit Parameters(const GgufFile& file) : file_(file) {}

  HyperParameters read() const {
    check_architecture();
    refuse_unknown_keys();
    HyperParameters p;
    p.architecture = kArchitecture;
    p.name = text_or("general.name", "");
    p.license = text_or("general.license", "");
    p.hidden_size = positive("llama.embedding_length");
    p.intermediate_size = positive("llama.feed_forward_length");
    p.context_length = positive("llama.context_length");
    p.layers = positive_int("llama.block_count");
    read_heads(p);
    p.rms_epsilon = positive_real("llama.attention.layer_norm_rms_epsilon");
    if (file_.has("llama.rope.freq_base")) p.rope_theta = positive_real("llama.rope.freq_base");
    read_vocabulary(p);
    return p;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(file_.path() + ": " + what);
  }

  void check_architecture() const {
    const std::string_view name = file_.string("general.architecture");
    if (name == kArchitecture) return;
    throw base::UsageError(file_.path() + ": architecture " + in_quotes(name) +
                           " is not supported in this version; supported is 'llama'");
  }

  /// A key that is silently ignored may be one that changes every logit.
  void refuse_unknown_keys() const {
    const std::string prefix = std::string(kArchitecture) + ".";
    for (const std::string_view key : file_.keys()) {
      if (!key.starts_with(prefix) || understood(key)) continue;
      throw base::UsageError(file_.path() + ": " + in_quotes(key) + " is " + file_.describe(key) +
                             ", not supported in this version");
    }
  }

  bool understood(std::string_view key) const {
    for (const std::string_view known : kUnderstood) {
      if (key == known) return true;
    }
    for (const Neutral& neutral : kNeutral) {
      if (key == neutral.key) return file_.describe(key) == neutral.value;
    }
    return false;
  }

  std::string text_or(std::string_view key, std::string_view fallback) const {
    return std::string(file_.has(key) ? file_.string(key) : fallback);
  }

  std::int64_t positive(std::string_view key) const {
    const std::int64_t value = file_.integer(key);
    if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) {
      damaged(in_quotes(key) + " is " + std::to_string(value) + "; it must lie in 1 .. 2147483647");
    }
    return value;
  }

  int positive_int(std::string_view key) const { return static_cast<int>(positive(key)); }

  double positive_real(std::string_view key) const {
    const double value = file_.real(key);
    if (!std::isfinite(value) || value <= 0.0) {
      damaged(in_quotes(key) + " is " + file_.describe(key) + "; it must be positive");
    }
    return value;
  }

  void read_heads(HyperParameters& p) const {
    p.heads = positive_int("llama.attention.head_count");
    p.kv_heads = file_.has("llama.attention.head_count_kv")
                     ? positive_int("llama.attention.head_count_kv")
                     : p.heads;
    if (p.heads % p.kv_heads != 0) {
      damaged("'llama.attention.head_count' " + std::to_string(p.heads) +
              " is not a multiple of 'llama.attention.head_count_kv' " +
              std::to_string(p.kv_heads));
    }
    if (file_.has("llama.attention.key_length")) {
      p.head_dim = positive_int("llama.attention.key_length");
    } else {
      if (p.hidden_size % p.heads != 0) {
        damaged("'llama.embedding_length' " + std::to_string(p.hidden_size) +
                " is not a multiple of 'llama.attention.head_count' " + std::to_string(p.heads) +
                ", and 'llama.attention.key_length' is missing");
      }
      p.head_dim = static_cast<int>(p.hidden_size / p.heads);
    }
    if (p.head_dim % 2 != 0) {
      damaged("the head dimension " + std::to_string(p.head_dim) + " is odd; RoPE rotates pairs");
    }
    must_equal_head_dim("llama.attention.value_length", p.head_dim);
    must_equal_head_dim("llama.rope.dimension_count", p.head_dim);
  }

  void must_equal_head_dim(std::string_view key, int head_dim) const {
    if (!file_.has(key) || file_.integer(key) == head_dim) return;
    throw base::UsageError(file_.path() + ": " + in_quotes(key) + " is " + file_.describe(key) +
                           ", but the head dimension is " + std::to_string(head_dim) +
                           "; a difference is not supported in this version");
  }

  void read_vocabulary(HyperParameters& p) const {
    const GgufFile::Tensor* embedding = file_.find_tensor("token_embd.weight");
    if (embedding == nullptr) damaged("the tensor 'token_embd.weight' is missing");
    p.vocab_size = embedding->shape[1];
    p.tied_embeddings = file_.find_tensor("output.weight") == nullptr;
    if (p.vocab_size > std::numeric_limits<std::int32_t>::max()) {
      damaged("'token_embd.weight' has " + std::to_string(p.vocab_size) + " rows");
    }
    if (file_.has("llama.vocab_size") && file_.integer("llama.vocab_size") != p.vocab_size) {
      damaged("'llama.vocab_size' is " + file_.describe("llama.vocab_size") +
              ", but 'token_embd.weight' has " + std::to_string(p.vocab_size) + " rows");
    }
  }

  const GgufFile& file_;
};

}  // namespace

HyperParameters read_llama_parameters(const GgufFile& file) { return Parameters(file).read(); }

}  // namespace dgap::engine
