#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "calibrator/calibrator.hpp"
#include "engine/formats/open_weights.hpp"
#include "runtime/restorer.hpp"
#include "statistics/exact_row.hpp"
#include "schemas/results/results.hpp"
#include "statistics/reference_row.hpp"
#include "tests/calibrator/run_fixture.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::calibrator {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Messages;
using ::testing::SizeIs;

/// A run from traces to bundle, with hand-made networks.
class ExportTest : public ::testing::Test {
 protected:
  ExportTest() : model_(testing::tiny_gguf()) {
    config_.model.path = model_.path();
    trace_.header.model_sha256 = engine::open_weights(model_.path(), "gguf")->sha256();
    trace_.header.tokenizer_sha256 = std::string(64, 'a');
    testing::write_traces(config_, trace_, 5);
  }
  void run(float shrink) {
    testing::write_networks(config_, shrink);
    calibrate(config_, messages_);
    threshold(config_, messages_);
    export_bundle(config_, messages_);
  }
  std::filesystem::path in(const std::string& name) const { return config_.run_directory() / name; }

  testing::TemporaryFolder folder_;
  testing::TemporaryFile model_;
  schemas::Config config_ = testing::config_for(folder_.path());
  schemas::TracePart trace_ = testing::make_trace(testing::run_trace());
  Messages messages_;
};

/// Mean KL and rate of corrected rows when the runtime restores full rows of logits.
struct Served {
  double kl = 0, rate = 0, nll = 0;
};
Served serve(const schemas::TracePart& trace, std::size_t precision,
             const schemas::Bundle& bundle) {
  const std::int64_t vocab = trace.header.vocab_size;
  runtime::Restorer restorer(bundle, trace.precisions[precision].name);
  statistics::ReferenceRow reference(vocab, 0, 0.0);
  Served served;
  for (std::int64_t step = 0; step < trace.steps(); ++step) {
    const auto quantized = testing::row(trace.columns[precision].logits, step, vocab);
    std::vector<float> row(quantized.begin(), quantized.end());
    dgap_logits view{row.data(), DGAP_F32, 1, vocab, vocab * 4, 4};
    dgap_result result;
    restorer.run(view, true, &result);
    reference.assign(testing::row(trace.reference.logits, step, vocab));
    const double lse = statistics::exact_row(row).lse;
    served.kl += reference.kl_to(row, lse) / static_cast<double>(trace.steps());
    served.nll += (lse - row[trace.step_target[step]]) / static_cast<double>(trace.steps());
    served.rate += (result.verdict == DGAP_RESTORE) / static_cast<double>(trace.steps());
  }
  return served;
}

TEST_F(ExportTest, WhatIsServedIsWhatTheCurvePromised) {
  for (const std::string policy : {"tradeoff", "fixed"}) {
    config_.threshold = {policy, 0.5, 0.002};
    run(-0.1f);
    EXPECT_THAT(messages_.warnings, IsEmpty());
    const schemas::Bundle bundle = schemas::read_bundle(in("bundle"));
    ASSERT_THAT(bundle.precisions, SizeIs(2));
    for (std::size_t p = 0; p < 2; ++p) {
      const schemas::PrecisionEntry& entry = bundle.precisions.at(trace_.precisions[p].name);
      const json figures = json::parse(entry.validation_json);
      EXPECT_EQ(entry.mode, "threshold");
      EXPECT_EQ(entry.threshold_policy, policy);
      EXPECT_EQ(figures["steps"], trace_.steps());
      const Served served = serve(trace_, p, bundle);
      EXPECT_GT(served.rate, 0.0);
      EXPECT_LT(served.kl, figures["kl"]["before"]);
      EXPECT_NEAR(served.kl, figures["kl"]["after"], 1e-7);  // KL is stored as f32
      EXPECT_NEAR(served.rate, figures["correction_rate"], 1e-12);
      EXPECT_NEAR(std::exp(served.nll), figures["perplexity"]["after"],
                  1e-6 * std::exp(served.nll));
    }
  }
}

TEST_F(ExportTest, ACorrectorThatDoesHarmIsExportedSwitchedOff) {
  for (const std::string policy : {"tradeoff", "fixed"}) {
    config_.threshold = {policy, 0.2, 0.01};
    messages_.warnings.clear();
    run(0.4f);
    ASSERT_THAT(messages_.warnings, SizeIs(2));
    EXPECT_THAT(messages_.warnings[0], HasSubstr("K1V1: the corrector is switched off"));
    const schemas::Bundle bundle = schemas::read_bundle(in("bundle"));
    EXPECT_EQ(bundle.precisions.at("K1V1").mode, "off");
    const json figures = json::parse(bundle.precisions.at("K1V1").validation_json);
    EXPECT_EQ(figures["kl"]["before"], figures["kl"]["after"]);
    EXPECT_EQ(figures["correction_rate"], 0.0);
    EXPECT_NEAR(serve(trace_, 0, bundle).kl, figures["kl"]["before"], 1e-7);
    EXPECT_THAT(base::read_file(in("bundle/README.md")), HasSubstr("| off |"));
  }
}

TEST_F(ExportTest, AGuaranteeNeedsTwentyBooks) {
  config_.threshold.worse_share = 0.5;
  try {
    run(-0.1f);
    FAIL() << "accepted";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("threshold.worse_share = 0.5 asks for a guarantee, which "
                                        "needs at least 20 validation books; the traces hold 6"));
  }

  testing::RandomTrace options = testing::run_trace();
  options.units = 40;
  const schemas::TraceHeader header = trace_.header;
  trace_ = testing::make_trace(options);
  trace_.header = header;
  std::filesystem::remove_all(config_.run_directory());
  testing::write_traces(config_, trace_, 5);
  run(-0.1f);
  const auto worse = schemas::read_thresholds(in("threshold.json")).at("K1V1").worse;
  EXPECT_EQ(worse.books, 20);
  EXPECT_EQ(worse.limit, 0.5);
  EXPECT_LT(*worse.tau, 1.0);
  const json calibration = json::parse(base::read_file(in("bundle/calibration.json")));
  EXPECT_EQ(calibration["thresholds"]["K1V1"]["worse"]["limit"], 0.5);
  EXPECT_GT(calibration["thresholds"]["K1V1"]["curve"]["worse_bound"][0], 0.0);
  EXPECT_EQ(calibration["windows"]["K1V1"]["surface"]["rho"].size(), 19u);
  EXPECT_THAT(base::read_file(in("bundle/README.md")), HasSubstr("at most 0.500"));
}

TEST_F(ExportTest, BundleSaysWhereItComesFrom) {
  run(-0.1f);
  const schemas::Bundle bundle = schemas::read_bundle(in("bundle"));
  EXPECT_EQ(bundle.base_model.name, "tiny");
  EXPECT_EQ(bundle.base_model.license, "apache-2.0");
  EXPECT_EQ(bundle.base_model.architectures, std::vector<std::string>{"llama"});
  EXPECT_EQ(bundle.base_model.vocab_size, 97);
  EXPECT_EQ(bundle.base_model.logits_width, 320);
  EXPECT_EQ(bundle.base_model.model_sha256, trace_.header.model_sha256);
  EXPECT_EQ(json::parse(bundle.precisions.at("K2V2").scheme_json),
            schemas::to_json(schemas::preset("K2V2")));
  EXPECT_EQ(bundle.precisions.at("K2V2").window,
            schemas::read_windows(in("windows.json")).at("K2V2").window);

  const std::string card = base::read_file(in("bundle/README.md"));
  EXPECT_TRUE(
      card.starts_with("---\nbase_model: \"tiny\"\nlibrary_name: dgap\nlicense: \"apache-2.0\"\n"));
  EXPECT_THAT(card, HasSubstr("120 teacher-forced steps (12 sites in 6 books"));
  const json calibration = json::parse(base::read_file(in("bundle/calibration.json")));
  EXPECT_EQ(calibration["windows"], json::parse(base::read_file(in("windows.json")))["precisions"]);
  EXPECT_EQ(calibration["thresholds"],
            json::parse(base::read_file(in("threshold.json")))["precisions"]);
  const json provenance = json::parse(base::read_file(in("bundle/provenance.json")));
  EXPECT_EQ(provenance["run_id"], "run");
  EXPECT_EQ(provenance["traces"]["index"], json::parse(base::read_file(in("traces/index.json"))));
  EXPECT_EQ(provenance["config"], schemas::to_yaml(config_));
}

TEST_F(ExportTest, IsTheSameAgainAndSkippedWhenUpToDate) {
  run(-0.1f);
  std::vector<std::string> first;
  const std::vector<std::string> files = {"manifest.json", "weights.safetensors",
                                          "calibration.json", "README.md", "SHA256SUMS"};
  for (const std::string& file : files) first.push_back(base::read_file(in("bundle/" + file)));
  messages_.infos.clear();
  run(-0.1f);
  EXPECT_THAT(messages_.infos,
              ::testing::ElementsAre("calibrate: up to date", "threshold: up to date",
                                     "export: up to date"));
  std::filesystem::remove_all(in("stages"));
  run(-0.1f);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(base::read_file(in("bundle/" + files[i])), first[i]) << files[i];
  }
}

TEST_F(ExportTest, ThreadsDoNotMatter) {
  testing::write_networks(config_, -0.1f);
  calibrate(config_, messages_);
  std::vector<std::string> results;
  for (const std::size_t threads : {1, 2, 5}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    std::filesystem::remove_all(in("stages/threshold.json"));
    threshold(config_, messages_);
    results.push_back(base::read_file(in("threshold.json")));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(ExportTest, RefusesAnotherModelAndMissingStages) {
  const auto refusal = [&](auto stage) -> std::string {
    try {
      stage(config_, messages_);
    } catch (const base::FailedError& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(refusal(threshold), HasSubstr("run `dgap calibrate` first"));
  calibrate(config_, messages_);
  EXPECT_THAT(refusal(threshold), HasSubstr("run `dgap train` first"));
  testing::write_networks(config_, -0.1f);
  threshold(config_, messages_);
  testing::TinyModel other;
  other.seed = 2;
  model_.write(testing::tiny_gguf(other));
  EXPECT_THAT(refusal(export_bundle), HasSubstr("is not the model of the traces"));
  EXPECT_FALSE(std::filesystem::exists(in("bundle")));
}

}  // namespace
}  // namespace dgap::calibrator
