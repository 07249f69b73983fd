#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/text.hpp"
#include "calibrator/calibrator.hpp"
#include "calibrator/coverage_curve.hpp"
#include "calibrator/validation_traces.hpp"
#include "schemas/results/results.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {
namespace {

constexpr int kResamples = 1000;
constexpr double kQuantiles[] = {0.05, 0.25, 0.50, 0.75, 0.95};

/// The largest window that the traces can serve: beside it they must hold the next token.
int largest_window(const schemas::TracePart& trace, int cap) {
  return std::min(cap, trace.top < trace.header.vocab_size ? trace.top - 1 : trace.top);
}

/// Curves of all precisions, from one pass.
std::vector<CoverageCurve> coverage_curves(const ValidationTraces& traces,
                                           const schemas::WindowConfig& window,
                                           base::Progress& progress) {
  std::vector<CoverageCurve> curves;
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    if (curves.empty()) {
      curves.assign(part.columns.size(), CoverageCurve(largest_window(part, window.cap)));
    }
    for (std::size_t p = 0; p < curves.size(); ++p) {
      for (const std::int64_t step : steps) curves[p].add(part, p, step, window.alpha);
    }
    progress.advance(1);
  });
  return curves;
}

/// Not above `value`, so that a user who copies it gets what it says.
std::string rounded_down(double value) { return base::number(std::floor(value * 1e4) / 1e4); }

/// K_b = min{K : E c_t(K) >= rho_K}, Eq. 4.
schemas::WindowResult choose_window(const std::string& precision, const CoverageCurve& curve,
                                    const schemas::WindowConfig& config, base::Progress& progress) {
  schemas::WindowResult result;
  result.alpha = config.alpha;
  result.rho_k = config.rho_k;
  result.reachable = curve.reachable();
  result.curve_coverage = curve.coverage();
  result.curve_k.resize(result.curve_coverage.size());
  std::iota(result.curve_k.begin(), result.curve_k.end(), 1);
  if (result.reachable < config.rho_k) {
    const std::string reachable = rounded_down(result.reachable);
    throw base::FailedError("precision " + precision +
                            ": window.rho_k = " + base::number(config.rho_k) +
                            " cannot be reached: the candidate sets hold " + reachable +
                            " on average; lower rho_k to at most " + reachable + " or raise alpha");
  }
  const auto& coverage = result.curve_coverage;
  const auto enough = std::lower_bound(coverage.begin(), coverage.end(), config.rho_k);
  result.capped = enough == coverage.end();
  result.window = static_cast<int>(std::min(enough, coverage.end() - 1) - coverage.begin()) + 1;
  result.coverage_mean = coverage[result.window - 1];
  if (result.capped) {
    progress.warn("precision " + precision + ": window.cap = " + std::to_string(config.cap) +
                  " stops the search at a mean coverage of " + base::number(result.coverage_mean) +
                  " < rho_k = " + base::number(config.rho_k));
  }
  return result;
}

/// What every validation step says about the chosen window.
struct StepFigures {
  std::vector<double> coverage;
  std::int64_t positive = 0, uncovered = 0;
};

std::vector<StepFigures> step_figures(const ValidationTraces& traces, const schemas::Config& config,
                                      const std::vector<schemas::WindowResult>& windows,
                                      ClusterBuilder& clusters, base::Progress& progress) {
  std::vector<StepFigures> all(windows.size());
  statistics::StepWindow window;
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    clusters.add(part, steps);
    for (std::size_t p = 0; p < windows.size(); ++p) {
      for (const std::int64_t step : steps) {
        window.assign(part, p, step, windows[p].alpha, windows[p].window);
        all[p].coverage.push_back(window.coverage());
        all[p].positive += window.risky(config.labels.epsilon, config.labels.rho_c);
        all[p].uncovered += window.uncovered(config.labels.epsilon, config.labels.rho_c);
      }
    }
    progress.advance(1);
  });
  return all;
}

void add_step_figures(schemas::WindowResult& result, StepFigures figures,
                      const statistics::Clusters& clusters, const schemas::Config& config) {
  const auto steps = static_cast<double>(figures.coverage.size());
  result.positive_rate = static_cast<double>(figures.positive) / steps;
  result.uncovered_rate = static_cast<double>(figures.uncovered) / steps;
  if (config.window.confidence > 0.0) {
    const double level = 1.0 - config.window.confidence;
    result.coverage_confidence = config.window.confidence;
    result.coverage_lower = statistics::bootstrap_mean(figures.coverage, clusters, kResamples,
                                                       config.run.seed, {&level, 1})[0];
  }
  std::sort(figures.coverage.begin(), figures.coverage.end());
  for (const double level : kQuantiles) {
    result.coverage_quantiles.push_back(statistics::quantile(figures.coverage, level));
  }
}

}  // namespace

void calibrate(const schemas::Config& config, base::Progress& progress) {
  const std::filesystem::path run = config.run_directory(), file = run / "windows.json";
  const schemas::Stage stage(config, "calibrate", {run / "traces" / "index.json"});
  if (stage.done()) return progress.info("calibrate: up to date");

  const ValidationTraces traces(config);
  progress.begin("calibrate", 2 * traces.parts(), "parts");
  const std::vector<CoverageCurve> curves = coverage_curves(traces, config.window, progress);
  std::vector<schemas::WindowResult> results;
  for (std::size_t p = 0; p < curves.size(); ++p) {
    results.push_back(choose_window(traces.precisions()[p], curves[p], config.window, progress));
  }
  ClusterBuilder builder;
  std::vector<StepFigures> figures = step_figures(traces, config, results, builder, progress);
  const statistics::Clusters clusters = builder.clusters();
  if (config.window.confidence > 0.0 && clusters.approximate) {
    progress.warn(
        "fewer than 20 validation books: the coverage bound resamples sites and is approximate");
  }
  schemas::Windows windows;
  for (std::size_t p = 0; p < results.size(); ++p) {
    add_step_figures(results[p], std::move(figures[p]), clusters, config);
    windows.emplace(traces.precisions()[p], std::move(results[p]));
  }
  progress.end();
  schemas::write_windows(file, windows);
  stage.finish({file});
}

}  // namespace dgap::calibrator
