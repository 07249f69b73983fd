#include "engine/formats/hf_rope.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/formats/gguf_types.hpp"

namespace dgap::engine {
namespace {

using Scaling = RopeParameters::Scaling;

constexpr std::array<std::pair<std::string_view, Scaling>, 5> kTypes{{
    {"default", Scaling::none},
    {"linear", Scaling::linear},
    {"dynamic", Scaling::dynamic},
    {"llama3", Scaling::llama3},
    {"yarn", Scaling::yarn},
}};

/// The members of rope_scaling or rope_parameters.
class Scaled {
 public:
  explicit Scaled(JsonValues& values) : values_(values) {}

  void read(RopeParameters& rope, std::int64_t context_length) {
    rope.scaling = type();
    if (rope.scaling != Scaling::none) {
      rope.factor = real("factor");
      if (rope.factor < 1.0) values_.fail("factor", "must be at least 1");
    }
    // Configs for vLLM and others carry it with every type; where a type does not use it, it must
    // not be left unread.
    const bool original = values_.has("original_max_position_embeddings");
    if (original) rope.original_context = values_.positive("original_max_position_embeddings");
    if (rope.scaling == Scaling::dynamic) rope.original_context = context_length;
    if (rope.scaling == Scaling::llama3) read_llama3(rope, original);
    if (rope.scaling == Scaling::yarn) read_yarn(rope, context_length);
    refuse_others();
  }

 private:
  Scaling type() {
    const std::string type = values_.text("type", ""), rope_type = values_.text("rope_type", type);
    if (!type.empty() && type != rope_type)
      values_.fail("type", "is " + in_quotes(type) + ", but rope_type is " + in_quotes(rope_type));
    if (rope_type.empty()) {
      if (values_.has("factor")) values_.fail("rope_type", "is missing");
      return Scaling::none;
    }
    std::vector<std::string_view> known;
    for (const auto& [name, scaling] : kTypes) {
      if (rope_type == name) return scaling;
      known.push_back(name);
    }
    throw base::UsageError(values_.file() + ": rope_type " + in_quotes(rope_type) +
                           " is not supported in this version; supported are " + base::join(known));
  }

  double real(std::string_view key) { return values_.positive_real(key); }
  double real(std::string_view key, double otherwise) {
    return values_.has(key) ? real(key) : otherwise;
  }

  void read_llama3(RopeParameters& rope, bool original) {
    if (!original) values_.fail("original_max_position_embeddings", "is missing");
    rope.low_freq_factor = real("low_freq_factor");
    rope.high_freq_factor = real("high_freq_factor");
    if (rope.high_freq_factor <= rope.low_freq_factor)
      values_.fail("high_freq_factor", "must be above low_freq_factor");
  }

  void read_yarn(RopeParameters& rope, std::int64_t context_length) {
    if (rope.original_context == 0) rope.original_context = context_length;
    rope.beta_fast = real("beta_fast", rope.beta_fast);
    rope.beta_slow = real("beta_slow", rope.beta_slow);
    if (rope.beta_fast < rope.beta_slow) values_.fail("beta_fast", "must be at least beta_slow");
    if (values_.has("attention_factor")) rope.attention_factor = real("attention_factor");
    rope.mscale = real("mscale", 0.0);
    rope.mscale_all_dim = real("mscale_all_dim", 0.0);
    rope.truncate = values_.boolean("truncate", true);
    values_.boolean("finetuned", false);  // said by some, used by none
  }

  void refuse_others() {
    for (const auto& [key, value] : values_.value().items()) {
      if (value.is_null() || values_.asked_for(key)) continue;
      if (key == "partial_rotary_factor" && value.is_number() && value.get<double>() == 1.0)
        continue;
      values_.fail(key, "is " + shown(value) + ", which this type of RoPE does not use");
    }
  }

  JsonValues& values_;
};

}  // namespace

RopeParameters read_hf_rope(JsonValues& config, HyperParameters& p) {
  RopeParameters rope;
  std::optional<double> theta;
  if (config.has("rope_theta")) theta = config.positive_real("rope_theta");
  const bool scaling = config.has("rope_scaling"), parameters = config.has("rope_parameters");
  if (scaling && parameters &&
      *config.value().find("rope_scaling") != *config.value().find("rope_parameters"))
    config.fail("rope_scaling", "differs from rope_parameters; keep one of them");
  if (scaling || parameters) {
    JsonValues values = config.object(parameters ? "rope_parameters" : "rope_scaling");
    if (values.has("rope_theta")) {
      const double nested = values.positive_real("rope_theta");
      if (theta && *theta != nested)
        config.fail("rope_theta", "is " + base::number(*theta) + ", but " +
                                      (parameters ? "rope_parameters" : "rope_scaling") + " has " +
                                      base::number(nested));
      theta = nested;
    }
    Scaled(values).read(rope, p.context_length);
  }
  if (!theta) p.notes.push_back(config.file() + ": rope_theta is missing: 10000");
  rope.theta = theta.value_or(10000.0);
  return rope;
}

}  // namespace dgap::engine
