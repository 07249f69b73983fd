#include "engine/formats/hf_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/engine/testing/tiny_hf.hpp"

namespace dgap::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HfConfig;
using ::testing::IsEmpty;
using testing::json_text;
using Scaling = RopeParameters::Scaling;

HfConfig llama() { return testing::llama_config(); }
HfConfig mistral() { return testing::hf_config({}, "MistralForCausalLM", "mistral"); }
HfConfig qwen2() { return testing::hf_config({}, "Qwen2ForCausalLM", "qwen2"); }

/// The config with members changed; an empty value removes the key.
HfConfig with(HfConfig config, const HfConfig& changes) {
  for (const auto& [key, value] : changes)
    if (value.empty())
      config.erase(key);
    else
      config[key] = value;
  return config;
}
HyperParameters read(const HfConfig& config) {
  return read_hf_config(json_text(config), "/m/config.json");
}
std::string error_of(const HfConfig& config, base::ExitCode code) {
  try {
    read(config);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("/m/config.json"));
    return error.what();
  }
  return "no error";
}
std::string damage(const HfConfig& config) { return error_of(config, base::ExitCode::io); }
std::string refusal(const HfConfig& config) { return error_of(config, base::ExitCode::usage); }

TEST(HfConfig, ReadsLlama) {
  const HyperParameters p = read(llama());
  EXPECT_EQ(p.architecture, "llama");
  EXPECT_EQ(p.vocab_size, 320);
  EXPECT_EQ(p.hidden_size, 64);
  EXPECT_EQ(p.intermediate_size, 128);
  EXPECT_EQ(p.layers, 2);
  EXPECT_EQ(p.heads, 4);
  EXPECT_EQ(p.kv_heads, 2);
  EXPECT_EQ(p.head_dim, 16);
  EXPECT_EQ(p.context_length, 4096);
  EXPECT_EQ(p.rope.theta, 10000.0);
  EXPECT_EQ(p.rope.scaling, Scaling::none);
  EXPECT_EQ(p.rms_epsilon, 1e-5);
  EXPECT_TRUE(p.tied_embeddings);
  EXPECT_FALSE(p.attention_bias);
  EXPECT_EQ(p.window(0), 0);
  EXPECT_THAT(p.notes, IsEmpty());
}

TEST(HfConfig, DerivesHeads) {
  EXPECT_EQ(read(with(llama(), {{"head_dim", ""}})).head_dim, 16);
  EXPECT_EQ(read(with(llama(), {{"head_dim", "null"}})).head_dim, 16);
  EXPECT_EQ(read(with(llama(), {{"num_key_value_heads", ""}})).kv_heads, 4);
  // Another family's defaults are not Llama's.
  EXPECT_THAT(damage(with(qwen2(), {{"num_key_value_heads", ""}})),
              HasSubstr("num_key_value_heads is missing"));
  EXPECT_THAT(damage(with(llama(), {{"num_key_value_heads", "3"}})),
              HasSubstr("is not a multiple"));
  EXPECT_THAT(damage(with(llama(), {{"head_dim", "15"}})), HasSubstr("15 is odd"));
  EXPECT_THAT(damage(with(llama(), {{"head_dim", ""}, {"hidden_size", "66"}})),
              HasSubstr("and head_dim is missing"));
}

TEST(HfConfig, RefusesOtherArchitecturesByName) {
  for (const char* name : {"GemmaForCausalLM", "Qwen3ForCausalLM", "MixtralForCausalLM"})
    EXPECT_THAT(refusal(with(llama(), {{"architectures", "[\"" + std::string(name) + "\"]"}})),
                ::testing::AllOf(HasSubstr("'" + std::string(name) + "' is not supported"),
                                 HasSubstr("LlamaForCausalLM, MistralForCausalLM and Qwen2")));
  EXPECT_THAT(refusal(with(llama(), {{"architectures", "[]"}})), HasSubstr("not supported"));
  EXPECT_THAT(damage(with(llama(), {{"architectures", ""}})),
              HasSubstr("architectures: is missing"));
  EXPECT_THAT(damage(with(llama(), {{"model_type", "\"qwen2\""}})),
              HasSubstr("model_type is 'qwen2'"));
}

TEST(HfConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal(with(llama(), {{"logit_scale", "0.5"}})),
              HasSubstr("'logit_scale' is 0.5, a key that is not known"));
  EXPECT_THAT(refusal(with(llama(), {{"mlp_bias", "true"}})),
              HasSubstr("mlp_bias is true, not supported"));
  EXPECT_THAT(refusal(with(llama(), {{"hidden_act", "\"gelu\""}})),
              HasSubstr("hidden_act is 'gelu'"));
  EXPECT_THAT(refusal(with(llama(), {{"quantization_config", R"({"bits": 4})"}})),
              HasSubstr("quantization_config is {\"bits\":4}"));
  EXPECT_THAT(refusal(with(llama(), {{"partial_rotary_factor", "0.5"}})),
              HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(refusal(with(llama(), {{"sliding_window", "4096"}})),
              HasSubstr("'sliding_window' is 4096"));
  EXPECT_THAT(refusal(with(mistral(), {{"attention_bias", "true"}})),
              HasSubstr("attention_bias is true"));
  EXPECT_THAT(refusal(with(qwen2(), {{"attention_bias", "false"}})),
              HasSubstr("attention_bias is false"));
  EXPECT_THAT(damage(with(llama(), {{"vocab_size", "0"}})), HasSubstr("vocab_size: is 0"));
  EXPECT_THAT(damage(with(llama(), {{"hidden_size", "64.5"}})), HasSubstr("hidden_size: is 64.5"));
  EXPECT_THAT(damage(with(llama(), {{"num_hidden_layers", "2000000000"}})),
              HasSubstr("num_hidden_layers: is 2000000000"));
  EXPECT_THAT(damage(with(llama(), {{"num_hidden_layers", "\"2\""}})),
              HasSubstr("num_hidden_layers: is \"2\""));
  EXPECT_THAT(damage(with(llama(), {{"rms_norm_eps", "-1"}})), HasSubstr("rms_norm_eps: is -1"));
  EXPECT_THAT(damage(with(llama(), {{"tie_word_embeddings", "1"}})),
              HasSubstr("tie_word_embeddings: is 1"));
}

TEST(HfConfig, AcceptsWhatDoesNotMatter) {
  const HfConfig config = with(llama(), {{"bos_token_id", "1"},
                                         {"eos_token_id", "[1, 2]"},
                                         {"initializer_range", "0.02"},
                                         {"mlp_bias", "false"},
                                         {"attention_bias", "false"},
                                         {"pretraining_tp", "1"},
                                         {"rope_scaling", "null"},
                                         {"sliding_window", "null"},
                                         {"transformers_version", "\"4.46.0\""},
                                         {"quantization_config", "null"}});
  EXPECT_THAT(read(config).notes, IsEmpty());
}

TEST(HfConfig, Biases) {
  EXPECT_TRUE(read(with(llama(), {{"attention_bias", "true"}})).attention_bias);
  EXPECT_TRUE(read(with(llama(), {{"attention_bias", "true"}})).output_bias);
  EXPECT_TRUE(read(qwen2()).attention_bias);
  EXPECT_FALSE(read(qwen2()).output_bias);
  EXPECT_FALSE(read(mistral()).attention_bias);
}

TEST(HfConfig, RopeBaseAtTheTopOrNested) {
  EXPECT_EQ(read(with(llama(), {{"rope_theta", "500000.0"}})).rope.theta, 500000.0);
  EXPECT_EQ(read(with(llama(), {{"rope_theta", "500000"}})).rope.theta, 500000.0);
  const std::string nested = R"({"rope_type": "default", "rope_theta": 500000.0})";
  EXPECT_EQ(read(with(llama(), {{"rope_theta", ""}, {"rope_parameters", nested}})).rope.theta,
            500000.0);
  const HyperParameters absent = read(with(llama(), {{"rope_theta", ""}}));
  EXPECT_EQ(absent.rope.theta, 10000.0);
  EXPECT_THAT(absent.notes, ElementsAre(HasSubstr("rope_theta is missing: 10000")));
  EXPECT_THAT(damage(with(llama(), {{"rope_parameters", nested}})),
              HasSubstr("rope_theta: is 10000, but rope_parameters has 5e+05"));
  EXPECT_THAT(damage(with(llama(), {{"rope_theta", "1e400"}})), HasSubstr("config.json"));
  EXPECT_THAT(damage(with(llama(), {{"rope_theta", "0"}})), HasSubstr("rope_theta: is 0"));
}

HyperParameters scaled(const std::string& scaling) {
  return read(with(llama(), {{"rope_scaling", scaling}}));
}

TEST(HfConfig, RopeScaling) {
  for (const char* key : {"type", "rope_type"}) {
    const HyperParameters p = scaled("{\"" + std::string(key) + R"(": "linear", "factor": 4.0})");
    EXPECT_EQ(p.rope.scaling, Scaling::linear);
    EXPECT_EQ(p.rope.factor, 4.0);
    EXPECT_EQ(p.context_length, 4 * 4096);
  }
  const RopeParameters dynamic = scaled(R"({"type": "dynamic", "factor": 2})").rope;
  EXPECT_EQ(dynamic.scaling, Scaling::dynamic);
  EXPECT_EQ(dynamic.original_context, 4096);
  const RopeParameters llama3 =
      scaled(R"({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 1024, "rope_type": "llama3"})")
          .rope;
  EXPECT_EQ(llama3.scaling, Scaling::llama3);
  EXPECT_EQ(llama3.original_context, 1024);
  const HyperParameters yarn = scaled(R"({"type": "yarn", "rope_type": "yarn", "factor": 4.0,
                 "original_max_position_embeddings": 1024, "attention_factor": 1.0,
                 "beta_fast": 16, "beta_slow": 2, "truncate": false})");
  EXPECT_EQ(yarn.rope.scaling, Scaling::yarn);
  EXPECT_EQ(*yarn.rope.attention_factor, 1.0);
  EXPECT_EQ(yarn.rope.beta_fast, 16.0);
  EXPECT_EQ(yarn.rope.beta_slow, 2.0);
  EXPECT_FALSE(yarn.rope.truncate);
  EXPECT_EQ(yarn.context_length, 4096);  // 4 * 1024, not once more
  const HyperParameters whole = scaled(R"({"type": "yarn", "factor": 4.0})");
  EXPECT_EQ(whole.rope.original_context, 4096);
  EXPECT_EQ(whole.context_length, 4 * 4096);
}

TEST(HfConfig, RefusesRopeScalingItDoesNotKnow) {
  const auto refused = [](const std::string& scaling) {
    return refusal(with(llama(), {{"rope_scaling", scaling}}));
  };
  const auto damaged = [](const std::string& scaling) {
    return damage(with(llama(), {{"rope_scaling", scaling}}));
  };
  EXPECT_THAT(refused(R"({"type": "longrope", "factor": 4})"),
              HasSubstr("rope_type 'longrope' is not supported"));
  EXPECT_THAT(refused(R"({"rope_type": "Yarn", "factor": 4})"), HasSubstr("rope_type 'Yarn'"));
  EXPECT_THAT(damaged(R"({"type": "linear", "rope_type": "yarn", "factor": 4})"),
              HasSubstr("is 'linear', but rope_type is 'yarn'"));
  EXPECT_THAT(damaged(R"({"factor": 4})"), HasSubstr("rope_scaling.rope_type: is missing"));
  EXPECT_THAT(damaged(R"({"type": "linear"})"), HasSubstr("rope_scaling.factor: is missing"));
  EXPECT_THAT(damaged(R"({"type": "linear", "factor": 0.5})"), HasSubstr("must be at least 1"));
  EXPECT_THAT(damaged(R"({"type": "linear", "factor": 4, "beta_fast": 32})"),
              HasSubstr("rope_scaling.beta_fast: is 32, which this type of RoPE does not use"));
  EXPECT_THAT(
      damaged(R"({"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4})"),
      HasSubstr("original_max_position_embeddings: is missing"));
  EXPECT_THAT(
      damaged(R"({"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4,
                          "original_max_position_embeddings": 1024})"),
      HasSubstr("must be above low_freq_factor"));
  EXPECT_THAT(damaged(R"({"type": "yarn", "factor": 4, "short_factor": [1]})"),
              HasSubstr("short_factor"));
  EXPECT_THAT(damaged("4"), HasSubstr("expected an object"));
  EXPECT_THAT(damage(with(llama(), {{"rope_scaling", R"({"type": "linear", "factor": 2})"},
                                    {"rope_parameters", R"({"type": "linear", "factor": 4})"}})),
              HasSubstr("differs from rope_parameters"));
}

TEST(HfConfig, SlidingWindows) {
  EXPECT_EQ(read(with(mistral(), {{"sliding_window", "128"}})).window(1), 128);
  EXPECT_EQ(read(with(mistral(), {{"sliding_window", "null"}})).window(1), 0);
  const HyperParameters absent = read(mistral());
  EXPECT_EQ(absent.window(0), 4096);
  EXPECT_THAT(absent.notes, ElementsAre(HasSubstr("sliding_window is missing: 4096")));
  const HfConfig windows{{"sliding_window", "128"}, {"max_window_layers", "1"}};
  EXPECT_EQ(read(with(qwen2(), windows)).window(1), 0);  // use_sliding_window is off
  const HfConfig used = with(with(qwen2(), windows), {{"use_sliding_window", "true"}});
  EXPECT_EQ(read(used).window(0), 0);
  EXPECT_EQ(read(used).window(1), 128);
  const HyperParameters listed =
      read(with(used, {{"layer_types", R"(["sliding_attention", "full_attention"])"}}));
  EXPECT_EQ(listed.window(0), 128);
  EXPECT_EQ(listed.window(1), 0);
  EXPECT_THAT(damage(with(used, {{"layer_types", R"(["full_attention"])"}})),
              HasSubstr("layer_types has 1 entries for 2 layers"));
  EXPECT_THAT(refusal(with(used, {{"layer_types", R"(["linear_attention", "full_attention"])"}})),
              HasSubstr("'linear_attention'"));
  EXPECT_THAT(
      damage(with(qwen2(), {{"layer_types", R"(["sliding_attention", "full_attention"])"}})),
      HasSubstr("there is no sliding window"));
  EXPECT_THAT(damage(with(used, {{"max_window_layers", ""}})),
              HasSubstr("max_window_layers is missing"));
  EXPECT_THAT(damage(with(used, {{"sliding_window", "null"}})),
              HasSubstr("sliding_window is missing"));
}

TEST(HfConfig, RefusesDamagedText) {
  for (const char* text : {"", "{", "[]", "7", "{\"a\": 1, \"a\": 2}", "\xff", "{\"a\": NaN}"})
    EXPECT_THROW(read_hf_config(text, "c"), base::IoError) << text;
  EXPECT_THROW(read_hf_config("{\"a\":" + std::string(100000, '['), "c"), base::IoError);
}

// What the models of the paper, and of this family that people have, say of themselves.
TEST(HfConfig, KnownModels) {
  const HfConfig llama31{{"head_dim", ""},
                         {"attention_dropout", "0.0"},
                         {"hidden_size", "4096"},
                         {"num_attention_heads", "32"},
                         {"num_key_value_heads", "8"},
                         {"max_position_embeddings", "131072"},
                         {"rope_theta", "500000.0"},
                         {"vocab_size", "128256"},
                         {"tie_word_embeddings", "false"},
                         {"rope_scaling", R"({"factor": 8.0, "low_freq_factor": 1.0,
                           "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                           "rope_type": "llama3"})"}};
  const HyperParameters a = read(with(llama(), llama31));
  EXPECT_EQ(a.head_dim, 128);
  EXPECT_EQ(a.context_length, 131072);
  const HfConfig qwen25{{"head_dim", ""},
                        {"hidden_size", "5120"},
                        {"num_attention_heads", "40"},
                        {"num_key_value_heads", "8"},
                        {"max_window_layers", "70"},
                        {"sliding_window", "131072"},
                        {"use_sliding_window", "false"},
                        {"max_position_embeddings", "32768"},
                        {"rope_theta", "1000000.0"}};
  const HyperParameters b = read(with(qwen2(), qwen25));
  EXPECT_EQ(b.head_dim, 128);
  EXPECT_EQ(b.window(0), 0);
  EXPECT_TRUE(b.attention_bias);
  // With the YaRN that its card advises: four times as far.
  const HfConfig yarn{{"rope_scaling", R"({"factor": 4.0, "type": "yarn",
                        "original_max_position_embeddings": 32768})"}};
  EXPECT_EQ(read(with(with(qwen2(), qwen25), yarn)).context_length, 131072);
}

}  // namespace
}  // namespace dgap::engine
