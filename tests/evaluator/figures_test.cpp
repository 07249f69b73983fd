#include "evaluator/figures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluator/online.hpp"

namespace dgap::evaluator {
namespace {

Outcome step(double kl, double restored_kl, double nll, float risk, bool risky) {
  Outcome o;
  o.quantized = {kl, kl / 10, nll, kl < 0.5};
  o.restored = {restored_kl, restored_kl / 10, nll - 0.1, true};
  o.always = o.restored;
  o.oracle = {kl / 4, kl / 40, nll - 0.2, true};
  o.shift = o.quantized;
  for (int i = 0; i < kNoiseSeeds; ++i) o.noise[i] = {kl + i, 0.1, nll, i == 0};
  o.reference_nll = nll - 0.5;
  o.coverage = 1 - kl / 10;
  o.covered = o.coverage >= 0.95;
  o.risk = risk;
  o.corrected = risk > 0.5f;
  o.risky = risky;
  return o;
}

const std::vector<Outcome> kSteps = {step(1.0, 0.6, 3.0, 0.9f, true), step(0.2, 0.3, 2.0, 0.7f, false),
                                     step(0.4, 0.4, 4.0, 0.1f, true), step(0.0, 0.0, 1.0, 0.2f, false)};

TEST(Figures, MeansByDefinition) {
  const nlohmann::json f = figures(kSteps, 0.5);
  EXPECT_EQ(f["steps"], 4);
  EXPECT_DOUBLE_EQ(f["quantized"]["kl"].get<double>(), 0.4);
  EXPECT_DOUBLE_EQ(f["restored"]["kl"].get<double>(), 0.325);
  EXPECT_DOUBLE_EQ(f["quantized"]["perplexity"].get<double>(), std::exp(2.5));
  EXPECT_DOUBLE_EQ(f["reference"]["perplexity"].get<double>(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(f["quantized"]["drift_risky"].get<double>(), 0.07);
  EXPECT_DOUBLE_EQ(f["quantized"]["top1_agreement"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(f["restored"]["correction_rate"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(f["restored"]["kl_worse_share"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(f["oracle_all"]["kl"].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(f["oracle_risky"]["kl"].get<double>(), (0.25 + 0.2 + 0.1 + 0.0) / 4);
  EXPECT_DOUBLE_EQ(f["detector"]["precision"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(f["detector"]["recall"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(f["detector"]["auc"].get<double>(), 0.5);  // pairs: (.9>.7, .9>.2, .1<.7, .1<.2)
  EXPECT_DOUBLE_EQ(f["positive_rate"].get<double>(), 0.5);
}

TEST(Figures, ControlsAndTheirSpread) {
  const nlohmann::json f = figures(kSteps, 0.5);
  EXPECT_DOUBLE_EQ(f["noise"]["kl"].get<double>(), 0.4 + 1.0);  // draws of +0, +1, +2
  EXPECT_DOUBLE_EQ(f["noise"]["top1_agreement"].get<double>(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(f["noise"]["kl_by_draw"][2].get<double>(), 2.4);
  EXPECT_DOUBLE_EQ(f["oracle_detector"]["kl"].get<double>(), (0.6 + 0.2 + 0.4 + 0.0) / 4);
  EXPECT_EQ(f["shift"]["largest_kl_change"], 0.0);
  EXPECT_EQ(f["shift"]["top1_changed"], 0.0);
  EXPECT_DOUBLE_EQ(f["low_coverage_rate"].get<double>(), 0.25);  // 1 - kl / 10 < .95 once
}

TEST(Figures, RiskAsAProbability) {
  const nlohmann::json f = figures(kSteps, 0.5)["detector"];
  // .9 y, .7 n, .1 y, .2 n, each alone in its bin of a fifteenth: |r - y| on average.
  EXPECT_NEAR(f["calibration_error"].get<double>(), (0.1 + 0.7 + 0.9 + 0.2) / 4, 1e-7);
  EXPECT_EQ(f["reliability"]["steps"][13], 1);
  EXPECT_NEAR(f["reliability"]["score"][13].get<double>(), 0.9, 1e-7);
  EXPECT_EQ(f["reliability"]["frequency"][13], 1.0);
  EXPECT_TRUE(f["reliability"]["score"][14].is_null());
}

TEST(Figures, ByCoverageAveragesBins) {
  const nlohmann::json b = by_coverage(kSteps);  // coverage .9, .98, .96, 1
  ASSERT_EQ(b["from"].size(), 10u);
  EXPECT_EQ(b["share"][9], 1.0);
  EXPECT_EQ(b["share"][8], 0.0);
  EXPECT_TRUE(b["kl"][8].is_null());
  EXPECT_DOUBLE_EQ(b["kl"][9].get<double>(), 0.4);
  EXPECT_DOUBLE_EQ(b["kl_restored"][9].get<double>(), 0.325);
  EXPECT_DOUBLE_EQ(b["kl_ceiling"][9].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(b["correction_rate"][9].get<double>(), 0.5);
}

TEST(Figures, NothingToAverageIsNull) {
  const std::vector<Outcome> calm(3, step(0.1, 0.1, 1.0, 0.1f, false));
  const nlohmann::json f = figures(calm, 0.5);
  EXPECT_TRUE(f["quantized"]["drift_risky"].is_null());
  EXPECT_TRUE(f["detector"]["precision"].is_null());
  EXPECT_TRUE(f["detector"]["auc"].is_null());
}

TEST(Figures, IntervalsHoldTheMeanAndVanishWithoutSpread) {
  statistics::Clusters clusters{{0, 1, 2, 3}, 4, true};
  const nlohmann::json i = intervals(kSteps, clusters, 0.5, 1);
  const auto kl = i["quantized"]["kl"].get<std::vector<double>>();
  EXPECT_LT(kl[0], 0.4);
  EXPECT_GT(kl[1], 0.4);
  const std::vector<Outcome> same(4, kSteps[0]);
  const auto point = intervals(same, clusters, 0.5, 1)["quantized"]["kl"].get<std::vector<double>>();
  EXPECT_DOUBLE_EQ(point[0], 1.0);
  EXPECT_DOUBLE_EQ(point[1], 1.0);
}

TEST(Figures, ByStepAveragesBuckets) {
  const std::vector<std::int32_t> steps = {0, 1, 0, 1};
  const nlohmann::json b = by_step(kSteps, steps);
  EXPECT_EQ(b["first_step"], nlohmann::json::array({0, 1}));
  EXPECT_DOUBLE_EQ(b["kl"][0].get<double>(), 0.7);
  EXPECT_DOUBLE_EQ(b["kl"][1].get<double>(), 0.1);
}

TEST(Figures, RiskBeforeItWasCalibrated) {
  nlohmann::json detector;
  add_uncalibrated(kSteps, {1.0, 0.0}, detector);  // the identity: the risk itself
  EXPECT_NEAR(detector["uncalibrated"]["calibration_error"].get<double>(), 1.9 / 4, 1e-6);
  // logit(.9) = 2 f + 1 etc.: the raw scores by hand.
  double expected = 0.0;
  for (const Outcome& o : kSteps) {
    const double logit = std::log(o.risk / (1.0 - o.risk));
    expected += std::fabs(1.0 / (1.0 + std::exp(-(logit - 1.0) / 2.0)) - (o.risky ? 1.0 : 0.0)) / 4;
  }
  add_uncalibrated(kSteps, {2.0, 1.0}, detector);  // .73, .48, .17, .23: a bin each
  EXPECT_NEAR(detector["uncalibrated"]["calibration_error"].get<double>(), expected, 1e-6);
}

TEST(Figures, EscalatedSteps) {
  EXPECT_FALSE(figures(kSteps, 0.5).contains("escalate"));
  std::vector<Outcome> steps = kSteps;
  const float scores[] = {0.9f, 0.6f, 0.7f, 0.1f};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].escalation = scores[i];
    steps[i].escalated = scores[i] > 0.5f;
    steps[i].uncovered = i == 0 || i == 2 || i == 3;
  }
  const nlohmann::json f = figures(steps, 0.5)["escalate"];
  EXPECT_DOUBLE_EQ(f["rate"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(f["precision"].get<double>(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(f["recall"].get<double>(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(f["auc"].get<double>(), 2.0 / 3.0);
  EXPECT_NEAR(f["calibration_error"].get<double>(), (0.1 + 0.6 + 0.3 + 0.9) / 4, 1e-6);
}

TEST(Figures, AdaptiveWindowsBesideTheFixedOne) {
  std::vector<Outcome> steps = kSteps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].window = static_cast<int>(2 * i + 1);  // 1, 3, 5, 7
    steps[i].restored_fixed.kl = 0.5, steps[i].oracle_fixed.kl = 0.1,
    steps[i].coverage_fixed = 0.99;
  }
  const nlohmann::json f = adaptive_figures(steps, 8);
  EXPECT_DOUBLE_EQ(f["adaptive"]["window"].get<double>(), 4.0);
  EXPECT_DOUBLE_EQ(f["adaptive"]["window_quantiles"][2].get<double>(), 4.0);
  EXPECT_DOUBLE_EQ(f["adaptive"]["kl"].get<double>(), 0.325);
  EXPECT_DOUBLE_EQ(f["adaptive"]["kl_ceiling"].get<double>(), 0.1);
  EXPECT_EQ(f["fixed"]["window"], 8);
  EXPECT_DOUBLE_EQ(f["fixed"]["kl"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(f["fixed"]["coverage"].get<double>(), 0.99);
}

/// Two books, one unit each: a budget of one half, tau moving by a quarter per miss.
TEST(Figures, OnlineRateBesideTheFixedThreshold) {
  std::vector<Outcome> steps;
  for (const float risk : {0.9f, 0.7f, 0.8f, 0.2f})
    steps.push_back(step(1.0, 0.5, 2.0, risk, true));
  steps.push_back(step(1.0, 0.5, 2.0, 0.4f, true));
  steps.push_back(step(2.0, 0.5, 2.0, 0.45f, true));
  steps.back().escalated = true;
  schemas::TracePart trace;
  trace.units.resize(2);
  trace.units[0].book = "a", trace.units[0].steps = 4;
  trace.units[1].book = "b", trace.units[1].steps = 2, trace.units[1].first_step = 4;
  const nlohmann::json f = online_figures(trace, steps, 0.5, {0.5, 0.5, 0.0, 1.0});
  // a: tau .5 (corrected) .75 (not) .5 (corrected) .75 (not); fixed corrects three of four.
  EXPECT_DOUBLE_EQ(f["by_book"]["a"]["online"]["correction_rate"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(f["by_book"]["a"]["fixed"]["correction_rate"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(f["by_book"]["a"]["online"]["kl"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(f["by_book"]["a"]["fixed"]["kl"].get<double>(), 0.625);
  // b: tau .5 (not) .25 (would, but it is escalated).
  EXPECT_DOUBLE_EQ(f["by_book"]["b"]["online"]["correction_rate"].get<double>(), 0.0);
  EXPECT_DOUBLE_EQ(f["online"]["correction_rate"].get<double>(), 2.0 / 6.0);
  EXPECT_DOUBLE_EQ(f["online"]["rate_error"].get<double>(), (0.0 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(f["fixed"]["rate_error"].get<double>(), (0.25 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(f["kl_quantized"].get<double>(), 7.0 / 6.0);
  EXPECT_EQ(f["budget"], 0.5);
}

}  // namespace
}  // namespace dgap::evaluator
