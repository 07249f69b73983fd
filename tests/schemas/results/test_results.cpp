#include <cmath>

#include "helpers.hpp"

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;

TEST(Windows, RoundTrip) {
  const TemporaryFolder folder;
  const Windows windows = some_windows();
  write_windows(folder / "windows.json", windows);
  const Windows read = read_windows(folder / "windows.json");
  ASSERT_EQ(read.size(), 2u);
  const WindowResult &a = windows.at("K1V1-R32"), &b = read.at("K1V1-R32");
  EXPECT_EQ(b.window, a.window);
  EXPECT_EQ(b.coverage_mean, a.coverage_mean);
  EXPECT_EQ(b.coverage_lower, a.coverage_lower);
  EXPECT_EQ(b.coverage_confidence, a.coverage_confidence);
  EXPECT_EQ(b.reachable, a.reachable);
  EXPECT_TRUE(b.capped);
  EXPECT_EQ(b.curve_k, a.curve_k);
  EXPECT_EQ(b.curve_coverage, a.curve_coverage);
  EXPECT_EQ(b.curve_lower, a.curve_lower);
  EXPECT_EQ(b.surface_k, a.surface_k);
  EXPECT_EQ(b.surface_rho, a.surface_rho);
  ASSERT_EQ(b.surface.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(b.surface[i].alpha, a.surface[i].alpha);
    EXPECT_EQ(b.surface[i].reachable, a.surface[i].reachable);
    EXPECT_EQ(b.surface[i].coverage, a.surface[i].coverage);
    EXPECT_EQ(b.surface[i].lower, a.surface[i].lower);
    EXPECT_EQ(b.surface[i].window, a.surface[i].window);
  }
  ASSERT_TRUE(b.adaptive.has_value());
  EXPECT_EQ(b.adaptive->share, a.adaptive->share);
  EXPECT_EQ(b.window_mass(), 0.75);
  EXPECT_EQ(b.adaptive->window_mean, a.adaptive->window_mean);
  EXPECT_EQ(b.adaptive->coverage_mean, a.adaptive->coverage_mean);
  EXPECT_EQ(b.adaptive->coverage_lower, a.adaptive->coverage_lower);
  EXPECT_EQ(b.adaptive->curve_mass, a.adaptive->curve_mass);
  EXPECT_EQ(b.adaptive->curve_window, a.adaptive->curve_window);
  EXPECT_EQ(b.adaptive->curve_coverage, a.adaptive->curve_coverage);
  EXPECT_FALSE(read.at("K4V4").adaptive.has_value());
  EXPECT_EQ(read.at("K4V4").window_mass(), 1.0);
  EXPECT_EQ(b.positive_rate, a.positive_rate);
  EXPECT_EQ(b.uncovered_rate, a.uncovered_rate);
  EXPECT_EQ(b.coverage_quantiles, a.coverage_quantiles);
  EXPECT_FALSE(read.at("K4V4").coverage_lower.has_value());
  EXPECT_TRUE(read.at("K4V4").coverage_quantiles.empty());
}

TEST(Windows, TheFileHasTheShapeOfTheContract) {
  const TemporaryFolder folder;
  WindowResult result;
  result.window = 2;
  result.curve_k = {1, 2};
  result.curve_coverage = {0.5, 1};
  write_windows(folder / "w.json", {{"P", result}});
  EXPECT_EQ(base::read_file(folder / "w.json"), R"({
  "precisions": {
    "P": {
      "adaptive": null,
      "alpha": 0.0,
      "capped": false,
      "coverage": {
        "confidence": null,
        "lower": null,
        "mean": 0.0,
        "quantiles": {}
      },
      "curve": {
        "coverage": [
          0.5,
          1.0
        ],
        "k": [
          1,
          2
        ],
        "lower": []
      },
      "positive_rate": 0.0,
      "reachable": 0.0,
      "rho_k": 0.0,
      "surface": {
        "alphas": [],
        "k": [],
        "rho": []
      },
      "uncovered_rate": 0.0,
      "window": 2
    }
  },
  "version": 1
}
)");
}

TEST(Thresholds, RoundTripWithNonFiniteNumbers) {
  const TemporaryFolder folder;
  const Thresholds thresholds = some_thresholds();
  write_thresholds(folder / "t.json", thresholds);
  const Thresholds read = read_thresholds(folder / "t.json");
  const ThresholdResult &a = thresholds.at("K1V1"), &b = read.at("K1V1");
  EXPECT_EQ(b.tau, a.tau);
  EXPECT_EQ(b.policy, a.policy);
  EXPECT_EQ(b.mode, a.mode);
  EXPECT_TRUE(std::isnan(b.kl_before));
  EXPECT_EQ(b.curve.tau, a.curve.tau);
  EXPECT_EQ(b.curve.rate, a.curve.rate);
  EXPECT_EQ(b.curve.kl_worse_share, a.curve.kl_worse_share);
  EXPECT_EQ(b.curve.worse_by_book, a.curve.worse_by_book);
  EXPECT_EQ(b.curve.worse_bound, a.curve.worse_bound);
  EXPECT_EQ(b.worse.books, 25);
  EXPECT_EQ(b.worse.confidence, 0.95);
  EXPECT_EQ(b.worse.limit, 0.2);
  EXPECT_EQ(b.worse.tau, 0.5);
  EXPECT_EQ(b.raised_from, 0.25);
  const DomainFigures& code = b.domains.at("code");
  EXPECT_EQ(code.steps, 7);
  EXPECT_EQ(code.kl_before, 0.5);
  EXPECT_EQ(code.kl_after, 0.4);
  EXPECT_EQ(code.kl_always, 0.6);
  EXPECT_EQ(code.standard_error, 0.01);
  EXPECT_TRUE(code.harmed);
  EXPECT_FALSE(read.at("K4V4").raised_from);
  EXPECT_FALSE(read.at("K4V4").worse.limit.has_value());
  EXPECT_EQ(b.curve.perplexity[0], 30);
  EXPECT_TRUE(std::isnan(b.curve.perplexity[1]));  // infinity is written as null
  EXPECT_THAT(base::read_file(folder / "t.json"), Not(HasSubstr("inf")));
  EXPECT_EQ(read.at("K4V4").mode, "threshold");
  const auto &escalate = thresholds.at("K1V1").escalate, &found = read.at("K1V1").escalate;
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tau, escalate->tau);
  EXPECT_EQ(found->rate, escalate->rate);
  EXPECT_EQ(found->precision, escalate->precision);
  EXPECT_TRUE(std::isnan(found->recall));
  EXPECT_FALSE(read.at("K4V4").escalate.has_value());
}

TEST(Results, ColumnsOfDifferentLengthsAreNotWritten) {
  const TemporaryFolder folder;
  WindowResult window;
  window.curve_k = {1};
  EXPECT_THROW(write_windows(folder / "w", {{"P", window}}), std::invalid_argument);
  ThresholdResult r;
  r.curve.tau = {0.5};
  EXPECT_THROW(write_thresholds(folder / "t", {{"P", r}}), std::invalid_argument);
}

class DamagedWindows : public ::testing::Test {
 protected:
  /// The message after replacing `from` by `to` in a valid file.
  std::string after(const std::string& from, const std::string& to) {
    write_windows(file_, some_windows());
    std::string text = base::read_file(file_);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    base::write_file_atomically(file_, text);
    const std::string message = refusal([&] { read_windows(file_); });
    EXPECT_THAT(message, ::testing::StartsWith(file_.string() + ":"));
    return message.substr(file_.string().size() + 1);
  }
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "windows.json";
};

TEST_F(DamagedWindows, AreNamed) {
  EXPECT_EQ(after("\"window\": 64", "\"window\": \"64\""),
            " precisions.K1V1-R32.window: expected an integer, got \"64\"");
  EXPECT_EQ(after("\"window\": 64", "\"window\": 0"),
            " precisions.K1V1-R32.window: must be in [1, 1000000], got 0");
  EXPECT_THAT(after("\"window\": 64", "\"window\": 18446744073709551615"),
              HasSubstr("must be in [1, 1000000]"));
  EXPECT_THAT(after("\"window\": 64", "\"window\": 64.0"), HasSubstr("expected an integer"));
  EXPECT_EQ(after("\"window\": 64", "\"windw\": 64"), " precisions.K1V1-R32.window: is missing");
  EXPECT_EQ(after("\"alpha\": 0.9", "\"alpha\": null"),
            " precisions.K1V1-R32.alpha: expected a number, got null");
  EXPECT_EQ(after("\"alpha\": 0.9", "\"alpha\": 0.9, \"extra\": 1"),
            " precisions.K1V1-R32.extra: is not a key of this format");
  EXPECT_THAT(after("\"alpha\": 0.9", "\"alpha\": 0.9, \"alpha\": 0.8"),
              HasSubstr("\"alpha\" is given twice"));
  EXPECT_THAT(after("\"alpha\": 0.9", "\"alpha\": 1e999"), HasSubstr("is not valid JSON"));
  EXPECT_EQ(after("\"capped\": true", "\"capped\": 1"),
            " precisions.K1V1-R32.capped: expected true or false, got 1");
  EXPECT_THAT(after("\"k\": [", "\"k\": [7,"), HasSubstr("curve.coverage: is not as long as k"));
  EXPECT_THAT(after("\"k\": [", "\"k\": [-1,"),
              HasSubstr("curve.k: expected a list of integers, found -1"));
  EXPECT_THAT(after("\"95\"", "\"99\""), HasSubstr("coverage.quantiles.95: is missing"));
  EXPECT_EQ(after("\"version\": 1", "\"version\": 2"),
            " version: is 2; this build reads version 1");
  EXPECT_EQ(after("\"version\": 1", "\"versio\": 1"), " version: is missing");
  EXPECT_THAT(after("\"precisions\": {", "\"precisions\": ["), HasSubstr("is not valid JSON"));
  EXPECT_THAT(
      after("\"lower\": 0.25", "\"lower\": " + std::string(100, '[') + std::string(100, ']')),
      HasSubstr("nested too deeply"));
}

TEST(Results, FilesThatAreNoObjects) {
  const TemporaryFolder folder;
  for (const char* text : {"", "null", "[]", "5", "{", "\xff"}) {
    base::write_file_atomically(folder / "x.json", text);
    EXPECT_THROW(read_windows(folder / "x.json"), base::IoError) << text;
    EXPECT_THROW(read_thresholds(folder / "x.json"), base::IoError) << text;
  }
  EXPECT_THROW(read_windows(folder / "none.json"), base::IoError);
}

TEST(Trained, RoundTrip) {
  const TemporaryFolder folder;
  const TrainedNetwork a = some_detector();
  write_trained(folder.path(), "K1V1", a);
  const TrainedNetwork b = read_trained(folder.path(), "K1V1");
  EXPECT_EQ(b.key, a.key);
  EXPECT_TRUE(b.info.escalate);
  ASSERT_TRUE(b.info.calibration && b.figures.calibration_error);
  EXPECT_EQ(b.info.calibration->scale, 0.75);
  EXPECT_EQ(b.info.calibration->offset, -1.25);
  EXPECT_EQ(b.figures.calibration_error->before, 0.25);
  EXPECT_EQ(b.figures.calibration_error->after, 0.125);
  EXPECT_EQ(b.figures.escalate_rate, 0.0625);
  EXPECT_EQ(b.figures.escalate_auc, 0.75);
  EXPECT_EQ(b.tensors.size(), 2u);

  std::string text = base::read_file(folder / "K1V1.json");
  text.replace(text.find("0.75,"), 4, "-1.0");
  base::write_file_atomically(folder / "K1V1.json", text);
  EXPECT_THAT(refusal([&] { read_trained(folder.path(), "K1V1"); }), HasSubstr("K1V1.json"));
}

}  // namespace
}  // namespace dgap::schemas
