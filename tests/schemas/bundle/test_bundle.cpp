#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "schemas/bundle/bundle.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace dgap::schemas {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kFiles[] = {"manifest.json", "weights.safetensors", "calibration.json",
                                  "README.md",     "SHA256SUMS",          "provenance.json"};

bool same_tensors(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape == y.second.shape && x.second.data == y.second.data;
  });
}

class BundleTest : public ::testing::Test {
 protected:
  fs::path place() const { return folder_.path() / "bundle"; }
  void write(const Bundle& bundle) { test::write_toy_bundle(place(), bundle); }
  std::string failure(const Bundle& bundle) {
    try {
      write(bundle);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::failed);
      EXPECT_FALSE(fs::exists(place()));
      EXPECT_TRUE(fs::is_empty(folder_.path()));
      return error.what();
    }
    return "no error";
  }

  test::TemporaryFolder folder_;
  Bundle bundle_ = test::toy_context_bundle(500, 16);
};

TEST_F(BundleTest, ReadsBackWhatWasWritten) {
  write(bundle_);
  for (const VerifyMode mode : {VerifyMode::full, VerifyMode::size_only}) {
    const Bundle read = read_bundle(place(), mode);
    EXPECT_TRUE(same_tensors(read.tensors, bundle_.tensors));
    EXPECT_EQ(read.base_model.name, "toy");
    EXPECT_EQ(read.base_model.license, "Apache-2.0");
    EXPECT_EQ(read.base_model.logits_width, 508);
    EXPECT_EQ(read.base_model.tokenizer_sha256, std::string(64, 'a'));
    EXPECT_EQ(read.feature_names, bundle_.feature_names);
    ASSERT_EQ(read.precisions.size(), bundle_.precisions.size());
    const PrecisionEntry& mlp = read.precisions.at("mlp");
    EXPECT_EQ(mlp.window, 16);
    EXPECT_EQ(mlp.tau, 0.5);
    EXPECT_EQ(mlp.rho_k, 0.8);
    EXPECT_EQ(mlp.coverage_lower, 0.79);
    EXPECT_EQ(mlp.mode, "threshold");
    EXPECT_EQ(mlp.detector.layers, 3);
    EXPECT_TRUE(mlp.corrector.mass);
    EXPECT_EQ(mlp.corrector.inputs, std::vector<std::string>{"logits"});
    EXPECT_EQ(nlohmann::json::parse(mlp.validation_json)["kl"]["after"], 0.75);
    EXPECT_EQ(nlohmann::json::parse(mlp.scheme_json)["key"]["bits"], 1);
    EXPECT_EQ(read.precisions.at("always").detector.constant_risk, 0.25);
    EXPECT_EQ(read.precisions.at("none").corrector.architecture, "none");
  }
}

TEST_F(BundleTest, BytesDependOnTheContentsAlone) {
  write(bundle_);
  const fs::path again = folder_.path() / "again";
  test::write_toy_bundle(again, read_bundle(place()));
  for (const char* name : kFiles) {
    EXPECT_EQ(base::read_file(place() / name), base::read_file(again / name)) << name;
  }
}

TEST_F(BundleTest, SumsListEveryFileButThemselvesAndProvenance) {
  write(bundle_);
  std::string expected;
  for (const char* name :
       {"manifest.json", "calibration.json", "README.md", "weights.safetensors"}) {
    expected += base::sha256_hex(base::read_file(place() / name)) + "  " + name + "\n";
  }
  EXPECT_EQ(base::read_file(place() / "SHA256SUMS"), expected);
  const std::string check =
      "cd '" + place().string() + "' && sha256sum --strict -c SHA256SUMS > /dev/null";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(BundleTest, ReplacesAnOlderBundleAndNothingElse) {
  write(bundle_);
  write(test::toy_bundle(600, 16));
  EXPECT_EQ(read_bundle(place()).base_model.vocab_size, 600);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);  // nothing left over

  const fs::path precious = folder_.path() / "precious";
  fs::create_directory(precious);
  base::write_file_atomically(precious / "thesis.txt", "three years");
  EXPECT_THROW(test::write_toy_bundle(precious, bundle_), base::UsageError);
  EXPECT_EQ(base::read_file(precious / "thesis.txt"), "three years");
  fs::remove(precious / "thesis.txt");
  test::write_toy_bundle(precious / "", bundle_);  // an empty folder, and a trailing slash
  EXPECT_EQ(read_bundle(precious).base_model.vocab_size, 500);
}

TEST_F(BundleTest, MissingParentIsNamed) {
  try {
    test::write_toy_bundle(folder_.path() / "no" / "such" / "bundle", bundle_);
    FAIL();
  } catch (const base::IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/such"));
  }
}

TEST_F(BundleTest, OptionalPartsComeBack) {
  EXPECT_THAT(implied_features(bundle_), ::testing::Not(::testing::Contains("escalate")));
  EXPECT_THAT(implied_features(bundle_), ::testing::Not(::testing::Contains("adaptive-window")));
  PrecisionEntry& entry = bundle_.precisions.at("mlp");
  entry.detector.escalate = true;
  entry.detector.calibration = RiskScale{0.75, -1.5};
  entry.escalate_tau = 0.625;
  entry.window_mass = 0.75;
  entry.online = OnlineRate{0.25, 0.05, 0.1, 0.9};
  test::add_network(bundle_.tensors, "mlp.detector.escalate", kDetectorInputs1, {5, 3}, 4);
  write(bundle_);
  const Bundle read = read_bundle(place());
  const PrecisionEntry& back = read.precisions.at("mlp");
  const std::vector<std::string> needed = {"adaptive-window", "escalate"};
  EXPECT_THAT(read.required_features, ::testing::IsSupersetOf(needed));
  EXPECT_EQ(back.window_mass, 0.75);
  EXPECT_EQ(read.precisions.at("linear").window_mass, 1.0);
  EXPECT_TRUE(back.detector.escalate);
  EXPECT_EQ(back.escalate_tau, 0.625);
  ASSERT_TRUE(back.detector.calibration && back.online);
  EXPECT_EQ(back.detector.calibration->scale, 0.75);
  EXPECT_EQ(back.detector.calibration->offset, -1.5);
  EXPECT_EQ(back.online->rate, 0.25);
  EXPECT_EQ(back.online->step, 0.05);
  EXPECT_EQ(back.online->low, 0.1);
  EXPECT_EQ(back.online->high, 0.9);
  EXPECT_TRUE(read.tensors.contains("mlp.detector.escalate.2.bias"));
}

TEST_F(BundleTest, ThresholdMayBeMissingWhereItDecidesNothing) {
  for (auto& [name, entry] : bundle_.precisions) entry.mode = "always";
  bundle_.precisions.at("mlp").tau = std::numeric_limits<double>::infinity();
  write(bundle_);
  EXPECT_THAT(base::read_file(place() / "manifest.json"), HasSubstr("\"tau\": null"));
  EXPECT_TRUE(std::isnan(read_bundle(place()).precisions.at("mlp").tau));
}

struct Mistake {
  const char* message;
  void (*make)(Bundle&);
};

TEST_F(BundleTest, WritesNothingThatWouldNotBeRead) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const Mistake mistakes[] = {
      {"precisions.mlp.threshold.tau: is null",
       [](Bundle& b) { b.precisions.at("mlp").tau = kNaN; }},
      {"precisions.mlp.threshold.tau: is 1.5", [](Bundle& b) { b.precisions.at("mlp").tau = 1.5; }},
      {"escalate_tau", [](Bundle& b) { b.precisions.at("mlp").escalate_tau = 0.5; }},
      {"precisions.mlp.window: is 501; expected an integer from 1 to 500",
       [](Bundle& b) { b.precisions.at("mlp").window = 501; }},
      {"window_mass: is 1.5", [](Bundle& b) { b.precisions.at("mlp").window_mass = 1.5; }},
      {"window: is 0", [](Bundle& b) { b.precisions.at("mlp").window = 0; }},
      {"precisions.mlp.mode: is \"maybe\"; known are threshold, always and off",
       [](Bundle& b) { b.precisions.at("mlp").mode = "maybe"; }},
      {"mlp.detector.0.weight: element 5 is not finite",
       [](Bundle& b) { b.tensors.at("mlp.detector.0.weight").data[5] = std::nanf(""); }},
      {"mlp.corrector.mass.1.bias is missing",
       [](Bundle& b) { b.tensors.erase("mlp.corrector.mass.1.bias"); }},
      {"holds the tensor stray",
       [](Bundle& b) {
         b.tensors["stray"] = {{1}, {0.0f}};
       }},
      {"linear.detector.0.weight: has shape [1, 19]; expected [1, 20]",
       [](Bundle& b) {
         b.tensors.at("linear.detector.0.weight") = {{1, 19}, std::vector<float>(19)};
       }},
      {"which is not what its shape says",
       [](Bundle& b) { b.tensors.at("linear.detector.0.weight").data.pop_back(); }},
      {"architecture: is \"tree\"",
       [](Bundle& b) { b.precisions.at("mlp").detector.architecture = "tree"; }},
      {"layers: is 1; expected an integer from 2 to 16",
       [](Bundle& b) { b.precisions.at("mlp").detector.layers = 1; }},
      {"inputs: is [\"context\",\"logits\"]",
       [](Bundle& b) {
         b.precisions.at("mlp").corrector.inputs = {"context", "logits"};
       }},
      {"mlp.corrector.shape.mean: has shape [27]; expected [58]",
       [](Bundle& b) {
         b.precisions.at("mlp").corrector.inputs = {"logits", "context"};
       }},
      {"precisions.transformer.corrector.heads: is 0",
       [](Bundle& b) { b.precisions.at("transformer").corrector.heads = 0; }},
      {"a width of 8 does not divide into 3 heads",
       [](Bundle& b) { b.precisions.at("transformer").corrector.heads = 3; }},
      {"layers: is 7; a transformer has 2 and 4 per block",
       [](Bundle& b) { b.precisions.at("transformer").corrector.layers = 7; }},
      {"layers: is 18; expected an integer from 6 to 16",
       [](Bundle& b) { b.precisions.at("transformer").corrector.layers = 18; }},
      {"transformer.corrector.shape.7.bias is missing",
       [](Bundle& b) { b.precisions.at("transformer").corrector.layers = 10; }},
      {"mass_layers: is 0; expected an integer from 1 to 16",
       [](Bundle& b) { b.precisions.at("transformer").corrector.mass_layers = 0; }},
      {"transformer.corrector.shape.1.weight: has shape [24, 7]; expected [24, 8]",
       [](Bundle& b) {
         b.tensors.at("transformer.corrector.shape.1.weight") = {{24, 7},
                                                                 std::vector<float>(24 * 7)};
       }},
      {"hidden.corrector.tokens: has shape [500, 5]; expected [500, 6]",
       [](Bundle& b) { b.precisions.at("hidden").corrector.rank = 6; }},
      {"corrector.rank: is 0; expected an integer from 1 to 4096",
       [](Bundle& b) { b.precisions.at("hidden").corrector.rank = 0; }},
      {"hidden.corrector.query.mean: has shape [84]; expected [85]",
       [](Bundle& b) { b.base_model.hidden_size = 65; }},
      {"hidden.corrector.query.mean: has shape [84]; expected [64]",
       [](Bundle& b) {
         b.precisions.at("hidden").corrector.inputs = {"logits", "context", "hidden"};
       }},
      {"hidden.corrector.tokens: has shape [500, 5]; expected [499, 5]",
       [](Bundle& b) { b.base_model.vocab_size = 499; }},
      {"form: is \"triangle\"; known are window",
       [](Bundle& b) { b.precisions.at("window").corrector.form = "triangle"; }},
      {"window.corrector.shape.mean: has shape [628]; expected [58]",
       [](Bundle& b) { b.precisions.at("window").corrector.form = "candidate"; }},
      {"window.corrector.shape.mean: has shape [628]; expected [590]",
       [](Bundle& b) { b.precisions.at("window").window = 15; }},
      {"required_features: \"telepathy\"", [](Bundle& b) { b.required_features = {"telepathy"}; }},
      {"mlp.detector.escalate.mean is missing",
       [](Bundle& b) { b.precisions.at("mlp").detector.escalate = true; }},
      {"detector.escalate: is true, but there is no network",
       [](Bundle& b) {
         NetworkInfo& detector = b.precisions.at("mlp").detector;
         detector.architecture = "constant", detector.layers = 0, detector.escalate = true;
       }},
      {"calibration.scale: is 0",
       [](Bundle& b) {
         b.precisions.at("mlp").detector.calibration = RiskScale{0.0, 0.0};
       }},
      {"calibration.offset: is null",
       [](Bundle& b) {
         b.precisions.at("mlp").detector.calibration = RiskScale{1.0, kNaN};
       }},
      {"online.step: is 0",
       [](Bundle& b) {
         b.precisions.at("mlp").online = OnlineRate{0.3, 0.0, 0.0, 1.0};
       }},
      {"online.high: is 0.2",
       [](Bundle& b) {
         b.precisions.at("mlp").online = OnlineRate{0.3, 0.1, 0.4, 0.2};
       }},
      {"features.version: is 2", [](Bundle& b) { b.features_version = 2; }},
      {"features.names: has 19", [](Bundle& b) { b.feature_names.pop_back(); }},
      {"tokenizer_sha256: is \"\"", [](Bundle& b) { b.base_model.tokenizer_sha256.clear(); }},
      {"logits_width: is 499", [](Bundle& b) { b.base_model.logits_width = 499; }},
      {"not made of", [](Bundle& b) { b.precisions["K1 V1"] = b.precisions.at("mlp"); }},
      {"precisions: is empty", [](Bundle& b) { b.precisions.clear(), b.tensors.clear(); }},
      {"scheme", [](Bundle& b) { b.precisions.at("mlp").scheme_json = "[1]"; }},
      {"validation", [](Bundle& b) { b.precisions.at("mlp").validation_json = "{"; }},
      {"cannot be told as JSON", [](Bundle& b) { b.base_model.name = "\xff"; }},
  };
  for (const Mistake& mistake : mistakes) {
    Bundle bundle = bundle_;
    mistake.make(bundle);
    EXPECT_THAT(failure(bundle), HasSubstr(mistake.message));
  }
  EXPECT_THROW(write_bundle(place(), bundle_, "[]", "", "{}"), base::FailedError);
  EXPECT_THROW(write_bundle(place(), bundle_, "{}", "", "{\"a\": 1, \"a\": 2}"), base::FailedError);
}

}  // namespace
}  // namespace dgap::schemas
