#include "schemas/scheme/allocation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "schemas/scheme/index_set.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Error = base::UsageError>
std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(IndexSet, TextAndBack) {
  for (const char* text : {"0", "7", "0-3", "0,2,4", "0-3,7,9-4095"})
    EXPECT_EQ(index_set_text(*parse_index_set(text)), text);
  EXPECT_THAT(*parse_index_set("1,3-5"), ElementsAre(1, 3, 4, 5));
  EXPECT_EQ(index_set_text(*parse_index_set("1,2,3")), "1-3");
  EXPECT_EQ(index_set_text({}), "");
  for (const char* text : {"", ",", "1,", "-1", "3-1", "2,1", "1,1", "1-3,2", "01", "4096",
                           "0-4096", "1 ", "a", "1-", "99999999999"})
    EXPECT_FALSE(parse_index_set(text)) << text;
}

TEST(Overrides, TheLastOneThatFitsAHeadIsUsed) {
  const Scheme s = scheme_from_json(json::parse(R"({"name": "x", "preset": "K1V1", "overrides": [
      {"layers": "0-1", "key": {"bits": 4}},
      {"heads": "2", "value": {"bits": 16}},
      {"layers": "1", "heads": "0,2", "key": {"bits": 8}, "value": {"bits": 2}}]})"),
                                    "c");
  EXPECT_EQ(head_scheme(s, 30, 5, 0).key, s.key);
  EXPECT_EQ(head_scheme(s, 30, 5, 0).value, s.value);
  EXPECT_EQ(head_scheme(s, 30, 0, 1).key.bits, 4);
  EXPECT_EQ(head_scheme(s, 30, 0, 1).key.quantizer, Quantizer::symmetric);
  EXPECT_TRUE(head_scheme(s, 30, 0, 1).key.center);  // all else is the scheme's
  EXPECT_EQ(head_scheme(s, 30, 0, 2).value, TensorScheme{});
  EXPECT_EQ(head_scheme(s, 30, 1, 2).value.bits, 2);
  EXPECT_EQ(head_scheme(s, 30, 1, 2).key.bits, 8);
  EXPECT_EQ(head_scheme(s, 30, 1, 1).key.bits, 4);
  EXPECT_EQ(s.family, "centred");
  EXPECT_EQ(scheme_from_json(json::parse(to_json(s).dump()), "again"), s);
}

TEST(Overrides, AQuantiserThatIsNotTheDefaultStays) {
  const Scheme s = scheme_from_json(
      json::parse(R"({"name": "x", "preset": "kivi-1", "overrides": [{"key": {"bits": 2}}]})"),
      "c");
  EXPECT_EQ(head_scheme(s, 30, 0, 0).key.quantizer, Quantizer::asymmetric_fp16);
  EXPECT_EQ(head_scheme(s, 30, 0, 0).key.axis, GroupAxis::channel);
}

TEST(Overrides, AreChecked) {
  const auto error = [](const std::string& overrides) {
    return error_of([&] {
      scheme_from_json(
          json::parse(R"({"name": "x", "preset": "K1V1", "overrides": )" + overrides + "}"),
          "c.yaml");
    });
  };
  EXPECT_THAT(error("3"), HasSubstr("c.yaml.overrides: expected a list"));
  EXPECT_THAT(error(R"([{"layers": "3-1", "key": {"bits": 2}}])"),
              HasSubstr("c.yaml.overrides.0.layers: '3-1' is not a list"));
  EXPECT_THAT(error(R"([{"layer": "1", "key": {"bits": 2}}])"), HasSubstr("did you mean 'layers'"));
  EXPECT_THAT(error(R"([{"key": {"bits": 2}}, {"key": {"bits": 7}}])"),
              HasSubstr("overrides.1.key.bits is 7"));
  EXPECT_THAT(error(R"([{"heads": "1"}])"), HasSubstr("overrides.0.key or overrides.0.value"));
  Scheme s = preset("K1V1");
  s.overrides.push_back({.layers = {31}, .key = TensorScheme{}});
  EXPECT_NO_THROW(validate(s, {64, 32, 8}));
  EXPECT_THAT(error_of([&] {
                validate(s, {64, 30, 8});
              }),
              HasSubstr("overrides.0.layers has 31, but the model's layers are 0 to 29"));
  s.model_layers = 40;
  EXPECT_THAT(error_of([&] {
                validate(s, {64, 32, 8});
              }),
              HasSubstr("for a model of 40 layers, and this one has 32"));
}

TEST(AsymKv, TheFirstLayersHaveTwoBits) {
  const Scheme s = preset("asymkv-16-2");
  for (int layer = 0; layer < 32; ++layer) {
    EXPECT_EQ(head_scheme(s, 32, layer, 3).key.bits, layer < 16 ? 2 : 1);
    EXPECT_EQ(head_scheme(s, 32, layer, 3).value.bits, layer < 2 ? 2 : 1);
    EXPECT_EQ(head_scheme(s, 32, layer, 3).key.window, WindowRule::flush);
  }
  EXPECT_EQ(s.residual_window, 128);
  EXPECT_EQ(preset("asymkv-16-0-g64-R512").residual_window, 512);
  EXPECT_EQ(preset("asymkv-0-0").overrides.size(), 0u);
  EXPECT_NO_THROW(validate(s, {128, 32, 8}));
  EXPECT_THAT(error_of([&] {
                validate(preset("asymkv-40-0"), {128, 32, 8});
              }),
              HasSubstr("has 39, but the model's layers are 0 to 31"));
  EXPECT_EQ(scheme_from_json(json::parse(to_json(s).dump()), "again"), s);
  for (const char* name :
       {"asymkv-16", "asymkv-16-0-", "asymkv--1-0", "asymkv-16-0-R", "asymkv-x-0"})
    EXPECT_THAT(error_of([&] { preset(name); }), HasSubstr("asymkv-<layers>-<layers>")) << name;
}

class AllocationFile : public ::testing::Test {
 protected:
  AllocationFile()
      : path_(std::filesystem::temp_directory_path() /
              ("allocation-" + std::to_string(::getpid()) + ".json")) {}
  ~AllocationFile() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  template <class Error = base::UsageError>
  std::string refusal(const std::string& text) {
    write(text);
    return error_of<Error>([&] { read_allocation(path_, preset("K2V2")); });
  }
  std::filesystem::path path_;
};

TEST_F(AllocationFile, IsReadAsItWasWritten) {
  Allocation allocation{30, 3, {}};
  allocation.overrides.push_back({.layers = {0, 1, 2, 7}, .key = preset("K4V4").key});
  allocation.overrides.push_back(
      {.layers = {5}, .heads = {2}, .key = TensorScheme{}, .value = preset("K8V8").value});
  write_allocation(path_, allocation);
  const Allocation read = read_allocation(path_, preset("K2V2"));
  EXPECT_EQ(read.layers, 30);
  EXPECT_EQ(read.kv_heads, 3);
  EXPECT_EQ(read.overrides, allocation.overrides);
  Scheme scheme = preset("K2V2");
  apply(read, scheme);
  EXPECT_EQ(head_scheme(scheme, 30, 7, 1).key.bits, 4);
  EXPECT_EQ(scheme.model_layers, 30);
  EXPECT_THAT(error_of([&] { validate(scheme, {64, 32, 3}); }), HasSubstr("model of 30 layers"));
}

TEST_F(AllocationFile, IsHostileUntilChecked) {
  const std::string head =
      R"({"format": "dgap-allocation", "version": 1, "layers": 4, "kv_heads": 2, )";
  EXPECT_EQ(refusal(head + R"("overrides": [{"layers": "1", "key": {"bits": 8}}]})"), "no error");
  using Io = base::IoError;
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), std::string("{\"a\": 1, \"a\": 2}"),
        "{\"format\": \"dgap-trace\", \"version\": 1}" + std::string(),
        std::string(R"({"format": "dgap-allocation", "version": 2})"),
        std::string(R"({"format": "dgap-allocation", "version": 1, "layers": 0})"),
        std::string(R"({"format": "dgap-allocation", "version": 1, "layers": 99999})"),
        head + R"("overrides": [], "more": 1})", std::string(100000, '[')})
    EXPECT_THAT(refusal<Io>(text), HasSubstr(path_.string())) << text.substr(0, 60);
  for (const char* overrides :
       {R"({})", R"([{"layers": "4", "key": {"bits": 8}}])",
        R"([{"heads": "2", "key": {"bits": 8}}])", R"([{"key": {"bits": 7}}])",
        R"([{"key": {"bits": 8, "scale": 1}}])", R"([{"layers": 3}])", R"([{"layers": "1"}])"})
    EXPECT_THAT(refusal(head + "\"overrides\": " + overrides + "}"), HasSubstr(path_.string()))
        << overrides;
  std::filesystem::remove(path_);
  EXPECT_THAT(error_of<base::IoError>([&] { read_allocation(path_, preset("K2V2")); }),
              HasSubstr(path_.string()));
}

}  // namespace
}  // namespace dgap::schemas
