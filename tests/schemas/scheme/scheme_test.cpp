#include "schemas/scheme/scheme.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Preset, CentredIsTheDefaultFamily) {
  const Scheme s = preset("K1V2-R32");
  EXPECT_EQ(s.name, "K1V2-R32");
  EXPECT_EQ(s.family, "centred");
  EXPECT_EQ(s.residual_window, 32);
  EXPECT_EQ(s.sink_tokens, 4);
  EXPECT_TRUE(s.key_before_rope);
  EXPECT_EQ(s.key,
            (TensorScheme{
                .bits = 1, .quantizer = Quantizer::sign_mean, .center = true, .normalize = true}));
  EXPECT_EQ(
      s.value,
      (TensorScheme{.bits = 2, .quantizer = Quantizer::lloyd_max, .center = true, .rotate = true}));
  Scheme named = preset("centred-K1V2-R32");
  named.name = s.name;
  EXPECT_EQ(named, s);
}

TEST(Preset, OtherFamilies) {
  const Scheme rotated = preset("rotated-K4V8-S7");
  EXPECT_FALSE(rotated.key_before_rope);
  EXPECT_EQ(rotated.sink_tokens, 7);
  EXPECT_EQ(rotated.key,
            (TensorScheme{.bits = 4, .quantizer = Quantizer::symmetric, .rotate = true}));
  EXPECT_EQ(rotated.value,
            (TensorScheme{.bits = 8, .quantizer = Quantizer::symmetric, .rotate = true}));
  const Scheme uniform = preset("uniform-K1V1");
  EXPECT_EQ(uniform.sink_tokens, 0);
  EXPECT_EQ(uniform.key, (TensorScheme{.bits = 1, .quantizer = Quantizer::sign_mean}));
  const Scheme exact = preset("exact");
  EXPECT_EQ(exact.family, "exact");
  EXPECT_EQ(exact.key, TensorScheme{});
  EXPECT_EQ(exact.value, TensorScheme{});
  EXPECT_EQ(preset("K16V16").family, "exact");
}

TEST(Preset, OneTensorExact) {
  const Scheme key = preset("K16V1");
  EXPECT_EQ(key.key, TensorScheme{});
  EXPECT_FALSE(key.key_before_rope);
  EXPECT_EQ(preset("rotated-K2V16").value, TensorScheme{});
}

TEST(Preset, Kivi) {
  const Scheme s = preset("kivi-2");
  EXPECT_EQ(s.family, "kivi");
  EXPECT_EQ(s.key, (TensorScheme{.bits = 2,
                                 .quantizer = Quantizer::asymmetric_fp16,
                                 .axis = GroupAxis::channel,
                                 .group_size = 32,
                                 .window = WindowRule::flush}));
  EXPECT_EQ(s.value, (TensorScheme{.bits = 2,
                                   .quantizer = Quantizer::asymmetric_fp16,
                                   .group_size = 32,
                                   .window = WindowRule::lagging}));
  EXPECT_EQ(s.residual_window, 128);
  EXPECT_EQ(s.sink_tokens, 0);
  EXPECT_FALSE(s.key_before_rope);
  for (const char* name : {"kivi-1", "kivi-2", "kivi-4", "kivi-8", "kivi-4-g64", "kivi-2-g128",
                           "kivi-2-R32", "kivi-4-g32-R256"}) {
    EXPECT_NO_THROW(validate(preset(name), {128})) << name;
    EXPECT_EQ(scheme_from_json(json::parse(to_json(preset(name)).dump()), "test"), preset(name));
  }
  EXPECT_EQ(preset("kivi-4-g64-R256").residual_window, 256);
  EXPECT_EQ(preset("kivi-4-g64-R256").key.group_size, 64);
  for (const char* name : {"kivi-16", "kivi-5", "kivi", "kivi-2-g", "kivi-2-R32-g32", "kivi-2-S4"})
    EXPECT_THAT(error_of([&] { preset(name); }), HasSubstr("kivi-<b>[-g<n>][-R<n>]")) << name;
  EXPECT_THAT(error_of([] { validate(preset("kivi-2-g64-R32"), {128}); }),
              HasSubstr("residual_window 32"));
  EXPECT_THAT(error_of([] { validate(preset("kivi-2-g128"), {64}); }),
              HasSubstr("value.group_size 128 does not divide"));
  Scheme other = preset("kivi-2");
  other.value.window = WindowRule::sliding;
  EXPECT_THAT(error_of([&] { validate(other, {64}); }), HasSubstr("family 'kivi'"));
}

TEST(Preset, EveryPresetIsValidAndSurvivesJson) {
  for (const char* family : {"", "centred-", "rotated-", "uniform-"})
    for (const char* key : {"1", "2", "3", "4", "8", "16"})
      for (const char* value : {"1", "2", "3", "4", "8", "16"})
        for (const char* options : {"", "-R0", "-R128", "-S0", "-R32-S8"}) {
          const Scheme s = preset(std::string(family) + "K" + key + "V" + value + options);
          EXPECT_NO_THROW(validate(s, {64})) << s.name;
          EXPECT_EQ(scheme_from_json(json::parse(to_json(s).dump()), "test"), s) << s.name;
        }
}

TEST(Preset, RefusesWhatIsNotInTheGrammar) {
  for (const char* name : {"",
                           "K1",
                           "V1",
                           "K5V1",
                           "K1V1-",
                           "K01V1",
                           "K1V1-R",
                           "K1V1-R-1",
                           "K1V1-R+1",
                           "K1V1-R032",
                           "K1V1-S4-R1",
                           "K1V1R32",
                           "k1v1",
                           " K1V1",
                           "K1V1 ",
                           "rotated-exact",
                           "rotated",
                           "centred-rotated-K1V1",
                           "K1V1-R1048577",
                           "K1V1-R99999999999999999999",
                           "K1V1-R32-R32",
                           "KV",
                           "K16"}) {
    const std::string error = error_of([&] { preset(name); });
    EXPECT_THAT(error, HasSubstr("[centred-|rotated-|uniform-]K<b>V<b>[-R<n>][-S<n>]")) << name;
  }
  EXPECT_THAT(error_of([] { preset("rotatd-K1V1"); }), HasSubstr("the nearest is 'rotated-K1V1'"));
}

TEST(Validate, GroupMustDivideHeadDim) {
  Scheme s = preset("uniform-K4V4");
  s.family = "custom";
  s.key.group_size = 64;
  EXPECT_NO_THROW(validate(s, {128}));
  const std::string error = error_of([&] { validate(s, {80}); });
  EXPECT_THAT(error, HasSubstr("key.group_size 64"));
  EXPECT_THAT(error, HasSubstr("head_dim 80"));
  s.key.axis = GroupAxis::channel;  // groups of tokens need not divide channels
  EXPECT_NO_THROW(validate(s, {80}));
}

TEST(Validate, RotationNeedsAPowerOfTwo) {
  EXPECT_THAT(error_of([] { validate(preset("rotated-K1V1"), {96}); }), HasSubstr("head_dim 96"));
  EXPECT_THAT(error_of([] { validate(preset("K1V1"), {80}); }), HasSubstr("value.rotate"));
  EXPECT_NO_THROW(validate(preset("uniform-K1V1"), {80}));
}

TEST(Validate, NamesTheKeyTheValueAndTheRemedy) {
  const auto broken = [](auto&& edit) {
    Scheme s = preset("K4V4");
    s.family = "custom";
    edit(s);
    return error_of([&] { validate(s, {64}); });
  };
  EXPECT_EQ(broken([](Scheme&) {}), "no error");
  EXPECT_THAT(broken([](Scheme& s) { s.key.bits = 6; }), HasSubstr("key.bits is 6"));
  EXPECT_THAT(broken([](Scheme& s) { s.value.quantizer = Quantizer::sign_mean; }),
              HasSubstr("value.quantizer is sign_mean at value.bits 4"));
  EXPECT_THAT(broken([](Scheme& s) { s.key.bits = 1, s.key.quantizer = Quantizer::symmetric; }),
              HasSubstr("key.quantizer is symmetric"));
  EXPECT_THAT(broken([](Scheme& s) { s.key.axis = GroupAxis::channel; }),
              HasSubstr("key.group_size is 0"));
  EXPECT_THAT(broken([](Scheme& s) { s.key.group_size = -1; }), HasSubstr("key.group_size is -1"));
  EXPECT_THAT(broken([](Scheme& s) { s.residual_window = -1; }),
              HasSubstr("residual_window is -1"));
  EXPECT_THAT(broken([](Scheme& s) { s.sink_tokens = 1 << 30; }),
              HasSubstr("sink_tokens is 1073741824"));
  EXPECT_THAT(broken([](Scheme& s) { s.prefill = PrefillMode::quantized; }),
              HasSubstr("outliers and fp8 scales of 0 take statistics over an exact prefix"));
  EXPECT_THAT(broken([](Scheme& s) { s.name = "a/b"; }), HasSubstr("a/b"));
  EXPECT_THAT(broken([](Scheme& s) { s.name = ".."; }), HasSubstr(".."));
  EXPECT_THAT(broken([](Scheme& s) { s.family = "centered"; }), HasSubstr("'centered'"));
  EXPECT_THAT(broken([](Scheme& s) { s.family = "centred", s.value.rotate = false; }),
              HasSubstr("family: custom"));
  EXPECT_THAT(broken([](Scheme& s) { s.family = "exact"; }), HasSubstr("family exact"));
  EXPECT_THAT(broken([](Scheme& s) { s.rotation_seed = ~std::uint64_t{0}; }),
              HasSubstr("2^53 - 1"));
  EXPECT_THAT(broken([](Scheme& s) { s.key = TensorScheme{}; }), HasSubstr("key_before_rope"));
  EXPECT_THAT(broken([](Scheme& s) { s.value = TensorScheme{.rotate = true}; }),
              HasSubstr("value is exact"));
}

TEST(Validate, WindowRules) {
  const auto broken = [](WindowRule rule, int residual) {
    Scheme s = preset("uniform-K4V4");
    s.family = "custom", s.residual_window = residual;
    s.key.axis = GroupAxis::channel, s.key.group_size = 32, s.key.window = rule;
    return error_of([&] { validate(s, {64}); });
  };
  EXPECT_EQ(broken(WindowRule::sliding, 5), "no error");
  EXPECT_EQ(broken(WindowRule::lagging, 5), "no error");
  EXPECT_EQ(broken(WindowRule::flush, 128), "no error");
  EXPECT_THAT(broken(WindowRule::none, 0), HasSubstr("key.window is none"));
  EXPECT_THAT(broken(WindowRule::flush, 100), HasSubstr("residual_window 100"));
  EXPECT_THAT(broken(WindowRule::flush, 0), HasSubstr("residual_window 0"));
  Scheme s = preset("uniform-K4V4");
  s.family = "custom", s.key.axis = s.value.axis = GroupAxis::channel;
  s.key.group_size = 32, s.value.group_size = 64;  // each leaves by its own rule
  EXPECT_NO_THROW(validate(s, {64}));
}

TEST(Validate, QuantisedPrefill) {
  Scheme s = preset("rotated-K4V4");
  s.prefill = PrefillMode::quantized;
  EXPECT_NO_THROW(validate(s, {64}));
}

TEST(Json, PresetWithOverrides) {
  const Scheme s = scheme_from_json(
      json::parse(
          R"({"name": "mine", "preset": "K1V1", "residual_window": 16, "value": {"bits": 4}})"),
      "x");
  Scheme expected = preset("K1V4-R16");
  expected.name = "mine";
  expected.family = "custom";
  EXPECT_EQ(s, expected);
  EXPECT_EQ(scheme_from_json(json::parse(R"({"preset": "K1V1", "sink_tokens": 0})"), "x").family,
            "centred");
}

TEST(Json, StrictAboutKeysAndTypes) {
  const auto error = [](const char* text) {
    return error_of([&] { scheme_from_json(json::parse(text), "c.yaml: precisions[1]"); });
  };
  EXPECT_THAT(
      error(R"({"preset": "K1V1", "residual_windw": 3})"),
      HasSubstr(
          "c.yaml: precisions[1]: unknown key 'residual_windw'; did you mean 'residual_window'?"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "key": {"bit": 3}})"),
              HasSubstr("precisions[1].key: unknown key 'bit'"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "residual_window": "3"})"),
              HasSubstr("precisions[1].residual_window: expected an integer, got \"3\""));
  EXPECT_THAT(error(R"({"preset": "K1V1", "residual_window": 3.0})"),
              HasSubstr("expected an integer"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "residual_window": 4294967296})"),
              HasSubstr("out of range"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "residual_window": -9223372036854775808})"),
              HasSubstr("out of range"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "key": {"center": 1}})"),
              HasSubstr("expected true or false, got 1"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "key": {"axis": "head"}})"),
              HasSubstr("precisions[1].key.axis: 'head' is not one of token and channel"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "key": []})"),
              HasSubstr("expected an object, got array"));
  EXPECT_THAT(error(R"({"preset": "K7V1"})"),
              HasSubstr("c.yaml: precisions[1]: 'K7V1' is not a preset"));
  EXPECT_THAT(error(R"({"preset": "K1V1", "rotation_seed": -1})"), HasSubstr("out of range"));
  EXPECT_THAT(error("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error("{}"), HasSubstr("c.yaml: precisions[1]: scheme ''"));
}

}  // namespace
}  // namespace dgap::schemas
