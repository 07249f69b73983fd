#include "schemas/scheme/stack_presets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StackPresets, EveryOneIsValidAndSurvivesJson) {
  for (const std::string& name : stack_presets()) {
    const Scheme scheme = preset(name);
    EXPECT_EQ(scheme.name, name);
    for (const int head_dim : {64, 128, 256})
      EXPECT_NO_THROW(validate(scheme, {head_dim})) << name << " " << head_dim;
    EXPECT_EQ(scheme_from_json(nlohmann::json::parse(to_json(scheme).dump()), "test"), scheme);
  }
}

TEST(StackPresets, LlamaCpp) {
  const Scheme mixed = preset("llamacpp-q8_0-q4_0");
  EXPECT_EQ(mixed.family, "llamacpp");
  EXPECT_EQ(mixed.prefill, PrefillMode::quantized);
  EXPECT_EQ(mixed.key, (TensorScheme{.bits = 8,
                                     .quantizer = Quantizer::q8_0,
                                     .group_size = 32,
                                     .rotate = true,
                                     .rotation = RotationKind::hadamard_blocks,
                                     .window = WindowRule::none}));
  EXPECT_EQ(mixed.value, (TensorScheme{.bits = 4,
                                       .quantizer = Quantizer::q4_0,
                                       .group_size = 32,
                                       .rotate = true,
                                       .rotation = RotationKind::hadamard_64,
                                       .window = WindowRule::none}));
  const Scheme same = preset("llamacpp-iq4_nl-norot");
  EXPECT_EQ(same.key, same.value);
  EXPECT_FALSE(same.key.rotate);
  EXPECT_EQ(preset("llamacpp-f16-q8_0").key, TensorScheme{});
  EXPECT_NO_THROW(validate(mixed, {96}));  // there llama.cpp does not rotate
  EXPECT_THAT(error_of([&] { validate(mixed, {80}); }),
              HasSubstr("key.group_size 32 does not divide the model's head_dim 80"));
}

TEST(StackPresets, Vllm) {
  EXPECT_EQ(preset("vllm-fp8").key.scale, 0.0f);
  EXPECT_EQ(preset("vllm-fp8").prefill, PrefillMode::exact);
  EXPECT_TRUE(preset("vllm-fp8").key.layer_scale);
  EXPECT_FALSE(preset("vllm-fp8-per_head").key.layer_scale);
  EXPECT_EQ(preset("vllm-fp8_e5m2-unscaled").value.scale, 1.0f);
  EXPECT_EQ(preset("vllm-fp8_e5m2-unscaled").value.quantizer, Quantizer::fp8_e5m2);
  const Scheme scheme = preset("vllm-k3v4_nc");
  EXPECT_EQ(scheme.key.bits, 3);
  EXPECT_TRUE(scheme.key.norm_correction);
  EXPECT_EQ(scheme.value.quantizer, Quantizer::asymmetric);
  EXPECT_EQ(scheme.value.bits, 4);
  EXPECT_EQ(preset("vllm-k8v4").key.quantizer, Quantizer::fp8_e4m3);
  EXPECT_EQ(preset("vllm-k8v4").boundary_layers, 2);
  EXPECT_EQ(preset("vllm-fp8").boundary_layers, 0);
  EXPECT_EQ(head_scheme(scheme, 30, 1, 0), HeadScheme{});
  EXPECT_EQ(head_scheme(scheme, 30, 2, 0).key, scheme.key);
  EXPECT_EQ(head_scheme(scheme, 30, 27, 0).value, scheme.value);
  EXPECT_EQ(head_scheme(scheme, 30, 28, 0), HeadScheme{});
}

TEST(StackPresets, TurboQuantAndKvarn) {
  const Scheme two = preset("turboquant-prod-2.5-centred-R64");
  EXPECT_EQ(two.key.quantizer, Quantizer::turboquant_prod);
  EXPECT_EQ(two.value.quantizer, Quantizer::turboquant_mse);
  EXPECT_EQ(two.key.bits, 2);
  EXPECT_EQ(two.key.outlier_bits, 3);
  EXPECT_TRUE(two.key_before_rope && two.key.center && two.value.center);
  EXPECT_EQ(two.residual_window, 64);
  EXPECT_EQ(two.key.window, WindowRule::sliding);
  EXPECT_NO_THROW(validate(preset("turboquant-3.5"), {80}));
  const Scheme kvarn = preset("kvarn-k4v2-g64-S16");
  EXPECT_EQ(kvarn.key.group_size, 64);
  EXPECT_EQ(kvarn.sink_tokens, 16);
  EXPECT_EQ(kvarn.key.axis, GroupAxis::channel);
  EXPECT_EQ(kvarn.value.axis, GroupAxis::token);
  EXPECT_EQ(preset("kvarn-k2v2").sink_tokens, 128);
}

TEST(StackPresets, Kvquant) {
  const Scheme scheme = preset("kvquant-nuq3-1p");
  EXPECT_EQ(scheme.family, "kvquant");
  EXPECT_EQ(scheme.key.axis, GroupAxis::channel);
  EXPECT_EQ(scheme.value.axis, GroupAxis::token);
  EXPECT_EQ(scheme.key.bits, 3);
  EXPECT_EQ(scheme.value.outliers, 0.01);
  EXPECT_TRUE(scheme.key_before_rope);
  EXPECT_EQ(scheme.sink_tokens, 1);
  EXPECT_EQ(scheme.prefill, PrefillMode::quantized);
  EXPECT_TRUE(preset("kvquant-nuq2-1p-qnorm").value.q_norm);
  EXPECT_EQ(preset("kvquant-nuq4").key.outliers, 0.0);
  TensorScheme key = scheme.key;
  key.center = true;
  Scheme bad = scheme;
  bad.family = "custom", bad.key = key;
  EXPECT_THAT(error_of([&] { validate(bad); }), HasSubstr("codes the tensor as it is"));
}

TEST(StackPresets, RefusesOtherNames) {
  for (const char* name :
       {"llamacpp",         "llamacpp-",        "llamacpp-q3_0",     "llamacpp-f16",
        "llamacpp-f16-f16", "llamacpp-q8_0-",   "llamacpp-q8_0-rot", "llamacpp-q8_0-q4_0-q4_0",
        "vllm-fp4",         "vllm-k8v4x",       "turboquant-0",      "turboquant-5",
        "turboquant-4.5",   "turboquant-2.50",  "turboquant-prod",   "kvarn-k2v4",
        "kvquant-nuq1",     "kvquant-nuq3-0p",  "kvquant-nuq3-11p",  "kvquant-3",
        "kvarn-k4v2-g",     "kvarn-k4v2-S1-g64"})
    EXPECT_THAT(error_of([&] { preset(name); }), HasSubstr("turboquant-[prod-]<b>")) << name;
  EXPECT_THAT(error_of([] { preset("lamacpp-q8_0"); }), HasSubstr("nearest is 'llamacpp-q8_0'"));
}

TEST(QuantizerSettings, BelongToTheirQuantizers) {
  const auto error = [](const TensorScheme& tensor, int head_dim = 64) {
    Scheme scheme;
    scheme.name = "x", scheme.family = "custom", scheme.key = tensor;
    return error_of([&] { validate(scheme, {head_dim}); });
  };
  const TensorScheme mse{.bits = 3,
                         .quantizer = Quantizer::turboquant_mse,
                         .rotate = true,
                         .rotation = RotationKind::haar};
  EXPECT_EQ(error(mse, 80), "no error");
  TensorScheme bad = mse;
  bad.rotate = false, bad.rotation = RotationKind::signed_hadamard;
  EXPECT_THAT(error(bad), HasSubstr("set rotate: true with rotation haar"));
  bad = mse, bad.rotation = RotationKind::hadamard_64;
  EXPECT_THAT(error(bad), HasSubstr("turboquant_mse codes directions of rotated vectors"));
  bad = mse, bad.group_size = 32;
  EXPECT_THAT(error(bad), HasSubstr("turboquant_mse has no groups"));
  bad = mse, bad.bits = 8;
  EXPECT_THAT(error(bad), HasSubstr("turboquant_mse has 1, 2, 3, 4 bits"));
  bad = mse, bad.outlier_bits = 3;
  EXPECT_THAT(error(bad), HasSubstr("key.outlier_bits is 3; it must lie in (key.bits, 4]"));
  bad = mse, bad.outlier_bits = 4, bad.rotation = RotationKind::signed_hadamard;
  EXPECT_THAT(error(bad), HasSubstr("they need rotation: haar"));
  bad = mse, bad.sketch = SketchKind::orthonormal;
  EXPECT_THAT(error(bad), HasSubstr("key.sketch belongs to quantizer turboquant_prod"));
  bad = mse, bad.quantizer = Quantizer::turboquant_prod;
  EXPECT_THAT(error(bad, 36), HasSubstr("eight signs a byte"));
  bad = mse, bad.scale = 1.0f;
  EXPECT_THAT(error(bad), HasSubstr("key.scale belongs to quantizer fp8_e4m3 and fp8_e5m2"));
  EXPECT_THAT(error({.bits = 8, .quantizer = Quantizer::fp8_e4m3, .scale = -1.0f}),
              HasSubstr("key.scale must lie in"));
  EXPECT_THAT(error({.bits = 4, .quantizer = Quantizer::q4_0}), HasSubstr("group_size 32"));
  EXPECT_THAT(error({.bits = 5, .quantizer = Quantizer::symmetric}),
              HasSubstr("symmetric has 2, 3, 4, 8 bits"));
  EXPECT_THAT(error({.bits = 4, .quantizer = Quantizer::symmetric, .iterations = 3}),
              HasSubstr("key.iterations belongs to quantizer kvarn"));
  EXPECT_THAT(
      error({.bits = 4, .quantizer = Quantizer::kvarn, .group_size = 64, .normalize = true}),
      HasSubstr("kvarn normalises variances itself"));
  EXPECT_THAT(error({.bits = 4, .quantizer = Quantizer::kvarn}), HasSubstr("key.group_size is 0"));
  EXPECT_THAT(error({.bits = 4, .quantizer = Quantizer::symmetric, .rotation = RotationKind::haar}),
              HasSubstr("key.rotation is haar, but key.rotate is false"));
  for (const std::vector<float>& levels :
       {std::vector<float>{}, {-1, 0, 1}, {-1, 0, 0, 1}, {-2, 0, 0.5, 1}, {1, 0, 0.5, -1}})
    EXPECT_THAT(error({.bits = 2, .quantizer = Quantizer::codebook, .levels = levels}),
                HasSubstr("key.levels must be 4 ascending numbers in [-1, 1]"));
  EXPECT_THAT(error({.bits = 2, .quantizer = Quantizer::symmetric, .levels = {-1, 0, 0.5, 1}}),
              HasSubstr("key.levels belong to quantizer codebook"));
}

TEST(QuantizerSettings, ReadFromJson) {
  const auto read = [](const char* key) {
    return scheme_from_json(
               nlohmann::json::parse(std::string(R"({"name": "x", "key": )") + key + "}"), "c")
        .key;
  };
  EXPECT_EQ(read(R"({"quantizer": "q5_1"})"),
            (TensorScheme{.bits = 5, .quantizer = Quantizer::q5_1, .group_size = 32}));
  EXPECT_EQ(read(R"({"quantizer": "fp8_e4m3", "scale": 0.25})").scale, 0.25f);
  EXPECT_EQ(read(R"({"quantizer": "codebook", "bits": 1, "levels": [-0.5, 1]})").levels,
            (std::vector<float>{-0.5f, 1.0f}));
  EXPECT_THAT(
      error_of([&] { read(R"({"quantizer": "codebook", "bits": 1, "levels": [0, "1"]})"); }),
      HasSubstr("c.key.levels: expected a list of numbers, got \"1\""));
  EXPECT_THAT(error_of([&] { read(R"({"quantizer": "fp8_e4m3", "scale": 1e99})"); }),
              HasSubstr("out of range"));
  EXPECT_THAT(error_of([&] { read(R"({"quantizer": "q4_k"})"); }), HasSubstr("iq4_nl"));
}

}  // namespace
}  // namespace dgap::schemas
