#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/files.hpp"
#include "calibrator/adaptive_window.hpp"
#include "calibrator/calibrator.hpp"
#include "calibrator/coverage_surface.hpp"
#include "schemas/results/results.hpp"
#include "statistics/resampling.hpp"
#include "statistics/window.hpp"
#include "tests/calibrator/run_fixture.hpp"

namespace dgap::calibrator {
namespace {

using testing::config_for;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_trace;
using testing::Messages;
using testing::RandomTrace;
using testing::TemporaryFolder;
using testing::write_traces;

/// Steps of a trace, unit by unit, each a cluster of its own.
struct Sites {
  explicit Sites(const schemas::TracePart& trace) : steps(trace.steps()) {
    std::iota(steps.begin(), steps.end(), 0);
    for (const schemas::TraceUnit& unit : trace.units) {
      list.push_back({std::span(steps).subspan(unit.first_step, unit.steps),
                      static_cast<std::int32_t>(list.size())});
    }
  }
  std::vector<std::int64_t> steps;
  std::vector<Site> list;
};

CoverageSurface surface_of(const schemas::TracePart& trace, const std::vector<double>& alphas) {
  CoverageSurface surface(alphas, trace.top);
  surface.add(trace, 0, Sites(trace).list);
  return surface;
}

TEST(CoverageSurface, IsTheMeanOfEveryStepsCoverageForEveryKAndAlpha) {
  RandomTrace tied, masked, whole;
  tied.grid = 1.0f;
  masked.masked = 0.5, masked.vocab = 60;
  whole.vocab = 24, whole.top = 24;
  const std::vector<double> alphas = {0.01, 0.3, 0.31, 0.6, 0.9};
  for (const RandomTrace& kind : {RandomTrace{}, tied, masked, whole}) {
    const schemas::TracePart trace = make_trace(kind);
    const CoverageSurface surface = surface_of(trace, alphas);
    for (std::size_t a = 0; a < alphas.size(); ++a) {
      const std::vector<double> coverage = surface.coverage(a);
      ASSERT_EQ(coverage.size(), static_cast<std::size_t>(trace.top) + 1);
      double last = 0.0;
      for (int k = 1; k <= trace.top; ++k) {
        double mean = 0.0;
        for (const double c : statistics::coverage(trace, 0, alphas[a], k)) mean += c;
        EXPECT_NEAR(coverage[k - 1], mean / static_cast<double>(trace.steps()), 1e-12);
        EXPECT_GE(coverage[k - 1], last);
        last = coverage[k - 1];
      }
      EXPECT_LE(last, coverage.back() + 1e-12);
      if (trace.top == trace.header.vocab_size) {
        EXPECT_NEAR(last, coverage.back(), 1e-12);
      }
    }
  }
}

TEST(CoverageSurface, BoundsAreThoseOfEveryKByItself) {
  RandomTrace options;
  options.steps = 240, options.units = 24;
  const schemas::TracePart trace = make_trace(options);
  const CoverageSurface surface = surface_of(trace, {0.5, 0.9});
  const std::vector<double> lower = surface.lower(1, 0.9, 200, 7);
  EXPECT_TRUE(std::is_sorted(lower.begin(), lower.end()));
  const statistics::Clusters sites{trace.step_unit, 24, true};
  const double level = 0.1;
  for (const int k : {1, 2, 7, trace.top}) {
    const std::vector<double> coverage = statistics::coverage(trace, 0, 0.9, k);
    const double alone = statistics::bootstrap_mean(coverage, sites, 200, 7, {&level, 1})[0];
    EXPECT_NEAR(lower[k - 1], alone, 1e-12);
    EXPECT_LT(lower[k - 1], surface.coverage(1)[k - 1]);
  }
}

/// The mean size and coverage under one theta, step by step.
struct Kept {
  double window = 0, coverage = 0;
};
Kept kept_at(const schemas::TracePart& trace, double alpha, int most, double mass) {
  Kept kept;
  statistics::StepWindow window;
  for (std::int64_t step = 0; step < trace.steps(); ++step) {
    window.assign(trace, 0, step, alpha, most, mass);
    kept.window += window.k(), kept.coverage += window.coverage();
  }
  const auto steps = static_cast<double>(trace.steps());
  return {kept.window / steps, kept.coverage / steps};
}

TEST(AdaptiveCurve, KeepsTheShareWithTheLeastMass) {
  RandomTrace options;
  options.steps = 240, options.units = 24;
  const schemas::TracePart trace = make_trace(options);
  constexpr int kMost = 20;
  AdaptiveCurve curve(0.8, kMost);
  curve.add(trace, 0, Sites(trace).list);
  const double all = kept_at(trace, 0.8, kMost, 1.0).coverage;
  double last = 0.0;
  for (const double share : {0.5, 0.9, 0.99, 1.0}) {
    const schemas::AdaptiveWindow found = curve.choose(share, 0.0, 100, 1);
    EXPECT_FALSE(found.coverage_lower.has_value());
    EXPECT_GE(found.coverage_mean, share * all - 1e-12);
    const auto at = std::find(found.curve_mass.begin(), found.curve_mass.end(), found.mass);
    ASSERT_NE(at, found.curve_mass.end());
    if (at != found.curve_mass.begin()) {
      EXPECT_LT(kept_at(trace, 0.8, kMost, at[-1]).coverage, share * all);
    }
    const Kept kept = kept_at(trace, 0.8, kMost, found.mass);
    EXPECT_NEAR(found.coverage_mean, kept.coverage, 1e-12);
    EXPECT_NEAR(found.window_mean, kept.window, 1e-12);
    EXPECT_GE(found.window_mean, last);
    last = found.window_mean;
    EXPECT_TRUE(std::is_sorted(found.curve_window.begin(), found.curve_window.end()));
    EXPECT_TRUE(std::is_sorted(found.curve_coverage.begin(), found.curve_coverage.end()));
    EXPECT_EQ(found.curve_mass.back(), 1.0);
    EXPECT_NEAR(found.curve_coverage.back(), all, 1e-12);
  }
  // A lower bound asks for more than the mean does.
  const schemas::AdaptiveWindow bounded = curve.choose(0.9, 0.95, 200, 1);
  EXPECT_GE(bounded.mass, curve.choose(0.9, 0.0, 200, 1).mass);
  ASSERT_TRUE(bounded.coverage_lower.has_value());
  EXPECT_LT(*bounded.coverage_lower, bounded.coverage_mean);
}

class CalibrateTest : public ::testing::Test {
 protected:
  schemas::Windows windows() const {
    return schemas::read_windows(config_.run_directory() / "windows.json");
  }
  /// What calibrate() says when it refuses.
  std::string refusal() {
    try {
      calibrate(config_, messages_);
    } catch (const base::FailedError& error) {
      return error.what();
    }
    return "(accepted)";
  }

  TemporaryFolder folder_;
  schemas::Config config_ = config_for(folder_.path());
  schemas::TracePart trace_ = make_trace(testing::run_trace());
  Messages messages_;
};

TEST_F(CalibrateTest, FindsTheSmallestWindowAndItsFigures) {
  write_traces(config_, trace_, 5);
  calibrate(config_, messages_);
  EXPECT_THAT(messages_.warnings, IsEmpty());
  const schemas::Windows found = windows();
  ASSERT_EQ(found.size(), 2u);
  for (std::size_t p = 0; p < 2; ++p) {
    const schemas::WindowResult& result = found.at(trace_.precisions[p].name);
    const auto mean_at = [&](int k) {
      double mean = 0.0;
      for (const double c : statistics::coverage(trace_, p, config_.window.alpha, k)) mean += c;
      return mean / static_cast<double>(trace_.steps());
    };
    EXPECT_GT(result.window, 1);
    EXPECT_GE(mean_at(result.window), config_.window.rho_k);
    EXPECT_LT(mean_at(result.window - 1), config_.window.rho_k);
    EXPECT_NEAR(result.coverage_mean, mean_at(result.window), 1e-12);
    EXPECT_EQ(result.curve_k.back(), 32);
    EXPECT_NEAR(result.curve_coverage.back(), mean_at(32), 1e-12);
    EXPECT_FALSE(result.capped);
    EXPECT_FALSE(result.coverage_lower.has_value());

    statistics::StepWindow window;
    double positive = 0.0, uncovered = 0.0;
    std::vector<double> coverage;
    for (std::int64_t step = 0; step < trace_.steps(); ++step) {
      window.assign(trace_, p, step, config_.window.alpha, result.window);
      positive += window.risky(config_.labels.epsilon, config_.labels.rho_c);
      uncovered += window.uncovered(config_.labels.epsilon, config_.labels.rho_c);
      coverage.push_back(window.coverage());
    }
    EXPECT_GT(positive, 0.0);
    EXPECT_DOUBLE_EQ(result.positive_rate, positive / static_cast<double>(trace_.steps()));
    EXPECT_DOUBLE_EQ(result.uncovered_rate, uncovered / static_cast<double>(trace_.steps()));
    std::sort(coverage.begin(), coverage.end());
    EXPECT_DOUBLE_EQ(result.coverage_quantiles[2], (coverage[59] + coverage[60]) / 2.0);
  }
}

TEST_F(CalibrateTest, AdaptiveWindowsKeepTheirShare) {
  write_traces(config_, trace_, 5);
  calibrate(config_, messages_);
  EXPECT_FALSE(windows().at("K1V1").adaptive.has_value());
  const int most = windows().at("K1V1").window;
  config_.window.adaptive = 0.95;
  calibrate(config_, messages_);
  const schemas::WindowResult found = windows().at("K1V1");
  EXPECT_EQ(found.window, most);
  ASSERT_TRUE(found.adaptive.has_value());
  const Kept kept = kept_at(trace_, config_.window.alpha, most, found.adaptive->mass);
  EXPECT_NEAR(found.adaptive->window_mean, kept.window, 1e-12);
  EXPECT_LT(kept.window, most);
  EXPECT_GE(kept.coverage, 0.95 * found.coverage_mean - 1e-12);
  statistics::StepWindow window;  // labels are those of the windows that are served
  double positive = 0.0;
  for (std::int64_t step = 0; step < trace_.steps(); ++step) {
    window.assign(trace_, 0, step, config_.window.alpha, most, found.adaptive->mass);
    positive += window.risky(config_.labels.epsilon, config_.labels.rho_c);
  }
  EXPECT_DOUBLE_EQ(found.positive_rate, positive / static_cast<double>(trace_.steps()));
}

TEST_F(CalibrateTest, WindowGrowsWithTheTarget) {
  write_traces(config_, trace_, 12);
  int last = 0;
  for (const double rho : {0.1, 0.4, 0.6, 0.7, 0.75}) {
    config_.window.rho_k = rho;
    calibrate(config_, messages_);
    EXPECT_GE(windows().at("K1V1").window, last);
    last = windows().at("K1V1").window;
  }
  EXPECT_GT(last, 5);
}

TEST_F(CalibrateTest, NamesWhatCanBeReached) {
  write_traces(config_, trace_, 12);
  config_.window.rho_k = 0.99;
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("precision K1V1: window.rho_k = 0.99 cannot be reached"));
  const std::size_t at = message.find("at most ") + 8;
  const double reachable = std::stod(message.substr(at));
  config_.window.rho_k = reachable;  // what it says holds; only the cap may stop it now
  EXPECT_EQ(refusal(), "(accepted)");
  config_.window.rho_k = reachable + 2e-4;
  EXPECT_THAT(refusal(), HasSubstr("cannot be reached"));
}

TEST_F(CalibrateTest, WarnsWhereTheCapBinds) {
  write_traces(config_, trace_, 12);
  config_.window.cap = 3;
  calibrate(config_, messages_);
  ASSERT_EQ(messages_.warnings.size(), 2u);
  EXPECT_THAT(messages_.warnings[0], HasSubstr("precision K1V1: window.cap = 3"));
  EXPECT_TRUE(windows().at("K1V1").capped);
  EXPECT_EQ(windows().at("K1V1").window, 3);
}

TEST_F(CalibrateTest, CompactAndFullTracesAndAnyPartsGiveTheSameBytes) {
  std::vector<std::string> results;
  for (const auto& [units_per_part, full] :
       {std::pair<std::size_t, bool>{12, false}, {12, true}, {1, false}, {5, true}}) {
    TemporaryFolder folder;
    schemas::Config config = config_for(folder.path());
    config.window.confidence = 0.9;
    write_traces(config, trace_, units_per_part, full);
    calibrate(config, messages_);
    results.push_back(base::read_file(config.run_directory() / "windows.json"));
  }
  for (const std::string& result : results) EXPECT_EQ(result, results.front());
}

TEST_F(CalibrateTest, LooksAtValidationStepsAlone) {
  // Units of another split, of quite another spread, in the same parts.
  RandomTrace other = testing::run_trace();
  other.spread = 6.0, other.seed = 99;
  const schemas::TracePart elsewhere = make_trace(other);
  schemas::TracePart mixed = trace_;
  for (std::size_t u = 0; u < mixed.units.size(); u += 2) {
    mixed.units[u].split = "train";
    const std::int64_t first = mixed.units[u].first_step * mixed.header.vocab_size;
    const std::int64_t count = mixed.units[u].steps * mixed.header.vocab_size;
    std::copy_n(elsewhere.reference.logits.begin() + first, count,
                mixed.reference.logits.begin() + first);
  }
  write_traces(config_, mixed, 3);
  calibrate(config_, messages_);
  schemas::TracePart validation = trace_;
  for (std::size_t u = 0; u < mixed.units.size(); u += 2) validation.units[u].split = "train";
  TemporaryFolder folder;
  schemas::Config config = config_for(folder.path());
  write_traces(config, validation, 3);
  calibrate(config, messages_);
  EXPECT_EQ(base::read_file(config.run_directory() / "windows.json"),
            base::read_file(config_.run_directory() / "windows.json"));

  config_.corpus.splits.validation = "nowhere";
  EXPECT_THAT(refusal(), HasSubstr("no units of split 'nowhere'"));
}

TEST_F(CalibrateTest, WithAConfidenceTheLowerBoundReachesTheTarget) {
  write_traces(config_, trace_, 12);
  calibrate(config_, messages_);
  const schemas::WindowResult plain = windows().at("K1V1");
  EXPECT_TRUE(plain.curve_lower.empty());
  config_.window.confidence = 0.9;
  calibrate(config_, messages_);
  const schemas::WindowResult result = windows().at("K1V1");
  EXPECT_EQ(result.coverage_confidence, 0.9);
  EXPECT_GT(result.window, plain.window);
  EXPECT_GE(*result.coverage_lower, config_.window.rho_k);
  EXPECT_LT(result.curve_lower[result.window - 2], config_.window.rho_k);
  EXPECT_EQ(*result.coverage_lower, result.curve_lower[result.window - 1]);
  EXPECT_LT(*result.coverage_lower, result.coverage_mean);
  EXPECT_GT(*result.coverage_lower, result.coverage_mean - 0.1);
  EXPECT_THAT(messages_.warnings.at(0), HasSubstr("approximate"));  // six books

  // A target between the bound of what can be reached and its mean is refused.
  config_.window.rho_k = result.reachable - 1e-4;
  EXPECT_THAT(refusal(), HasSubstr("on average (lower bound at 0.9)"));
}

TEST_F(CalibrateTest, TheSurfaceHoldsEveryAlphaAndTarget) {
  write_traces(config_, trace_, 12);
  config_.window.alpha = 0.87;
  calibrate(config_, messages_);
  const schemas::WindowResult result = windows().at("K1V1");
  ASSERT_EQ(result.surface.size(), 19u);  // .05 ... .9 and .87
  EXPECT_EQ(result.surface_k, (std::vector<int>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}));
  for (const schemas::CoverageSlice& slice : result.surface) {
    for (std::size_t i = 0; i < result.surface_rho.size(); ++i) {
      const double rho = result.surface_rho[i];
      const auto mean_at = [&](int k) {
        double sum = 0.0;
        for (const double c : statistics::coverage(trace_, 0, slice.alpha, k)) sum += c;
        return sum / static_cast<double>(trace_.steps());
      };
      if (slice.window[i] == 0) {
        EXPECT_LT(mean_at(32), rho);
        continue;
      }
      EXPECT_GE(mean_at(slice.window[i]), rho - 1e-12);
      if (slice.window[i] > 1) {
        EXPECT_LT(mean_at(slice.window[i] - 1), rho);
      }
    }
  }
  const auto own = std::find_if(result.surface.begin(), result.surface.end(),
                                [](const auto& slice) { return slice.alpha == 0.87; });
  EXPECT_EQ(own->window[13], result.window);  // rho .7
  EXPECT_EQ(own->coverage.back(), result.curve_coverage.back());
  EXPECT_EQ(own->reachable, result.reachable);
}

TEST_F(CalibrateTest, IsSkippedWhenNothingChangedAndRefusesOtherTraces) {
  write_traces(config_, trace_, 12);
  calibrate(config_, messages_);
  calibrate(config_, messages_);
  EXPECT_THAT(messages_.infos, ::testing::ElementsAre("calibrate: up to date"));
  config_.precisions.push_back(schemas::preset("K4V4"));
  EXPECT_THAT(refusal(), HasSubstr("no precision 'K4V4'"));
}

TEST_F(CalibrateTest, RefusesCandidateSetsThatAreTooSmall) {
  config_.trace.alpha_max = 0.5;
  write_traces(config_, trace_, 12);
  EXPECT_THAT(refusal(), HasSubstr("trace.alpha_max"));
}

}  // namespace
}  // namespace dgap::calibrator
