#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/text.hpp"
#include "calibrator/adaptive_window.hpp"
#include "calibrator/calibrator.hpp"
#include "calibrator/coverage_surface.hpp"
#include "calibrator/validation_traces.hpp"
#include "schemas/results/results.hpp"
#include "statistics/resampling.hpp"
#include "statistics/window.hpp"

namespace dgap::calibrator {
namespace {

constexpr int kResamples = 1000;
constexpr int kGrid = 20;  // alpha and rho of the surface are its fractions
constexpr double kQuantiles[] = {0.05, 0.25, 0.50, 0.75, 0.95};

/// The largest window that the traces can serve: beside it they must hold the next token.
int largest_window(const schemas::TracePart& trace, int cap) {
  return std::min(cap, trace.top < trace.header.vocab_size ? trace.top - 1 : trace.top);
}

/// Every twentieth that the traces' candidate sets reach, and the configured one.
std::vector<double> alphas_of(const schemas::Config& config) {
  std::vector<double> alphas = {config.window.alpha};
  for (int i = 1; i < kGrid && i < kGrid * config.trace.alpha_max; ++i) {
    alphas.push_back(static_cast<double>(i) / kGrid);
  }
  std::sort(alphas.begin(), alphas.end());
  alphas.erase(std::unique(alphas.begin(), alphas.end()), alphas.end());
  return alphas;
}

/// The steps of a part, unit by unit.
std::vector<Site> sites_of(const schemas::TracePart& part, std::span<const std::int64_t> steps,
                           statistics::ClusterNumbers* numbers) {
  std::vector<Site> sites;
  for (std::size_t first = 0, end; first < steps.size(); first = end) {
    const std::int32_t unit = part.step_unit[steps[first]];
    for (end = first; end < steps.size() && part.step_unit[steps[end]] == unit;) ++end;
    sites.push_back({steps.subspan(first, end - first),
                     numbers == nullptr ? 0 : numbers->of_next(part.units[unit])});
  }
  return sites;
}

/// Coverage of all precisions, from one pass; by cluster only where a bound is asked for.
std::vector<CoverageSurface> coverage_surfaces(const ValidationTraces& traces,
                                               const schemas::Config& config,
                                               base::Progress& progress) {
  std::vector<CoverageSurface> surfaces;
  statistics::ClusterNumbers numbers(traces.books());
  const bool bounded = config.window.confidence > 0.0;
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    if (surfaces.empty()) {
      const int cap = largest_window(part, config.window.cap);
      surfaces.assign(part.columns.size(), CoverageSurface(alphas_of(config), cap));
    }
    const std::vector<Site> sites = sites_of(part, steps, bounded ? &numbers : nullptr);
    for (std::size_t p = 0; p < surfaces.size(); ++p) surfaces[p].add(part, p, sites);
    progress.advance(1);
  });
  return surfaces;
}

/// Not above `value`, so that a user who copies it gets what it says.
std::string rounded_down(double value) { return base::number(std::floor(value * 1e4) / 1e4); }

/// The smallest K whose coverage reaches rho; 0 where none up to the cap does. `coverage` has the
/// cap's entry last but one.
int smallest_window(const std::vector<double>& coverage, double rho) {
  const auto end = coverage.end() - 1;
  const auto enough = std::lower_bound(coverage.begin(), end, rho);
  return enough == end ? 0 : static_cast<int>(enough - coverage.begin()) + 1;
}

[[noreturn]] void fail_unreachable(const std::string& precision, double reachable,
                                   const schemas::WindowConfig& config) {
  const std::string most = rounded_down(reachable);
  const std::string bound =
      config.confidence > 0.0 ? " (lower bound at " + base::number(config.confidence) + ")" : "";
  throw base::FailedError("precision " + precision +
                          ": window.rho_k = " + base::number(config.rho_k) +
                          " cannot be reached: the candidate sets hold " + most + " on average" +
                          bound + "; lower rho_k to at most " + most + " or raise alpha");
}

/// Coverage and its lower bound (empty when none is asked for) for one alpha.
struct Curves {
  std::vector<double> mean, lower;
  /// What rho_K is compared with.
  const std::vector<double>& decisive() const { return lower.empty() ? mean : lower; }
};
Curves curves_of(const CoverageSurface& surface, std::size_t alpha, const schemas::Config& config) {
  Curves curves{surface.coverage(alpha), {}};
  if (config.window.confidence > 0.0) {
    curves.lower = surface.lower(alpha, config.window.confidence, kResamples, config.run.seed);
  }
  return curves;
}

/// The surface as windows.json keeps it: K at 1, 2, 3, 4, 6, 8, 12, 16, ... and the cap.
void add_surface(schemas::WindowResult& result, const CoverageSurface& surface,
                 const schemas::Config& config) {
  for (int power = 1; power < surface.cap(); power *= 2) {
    result.surface_k.push_back(power);
    if (power > 1 && power / 2 * 3 < surface.cap()) result.surface_k.push_back(power / 2 * 3);
  }
  result.surface_k.push_back(surface.cap());
  for (int i = 1; i < kGrid; ++i) result.surface_rho.push_back(static_cast<double>(i) / kGrid);
  for (std::size_t a = 0; a < surface.alphas().size(); ++a) {
    const Curves curves = curves_of(surface, a, config);
    schemas::CoverageSlice& slice = result.surface.emplace_back();
    slice.alpha = surface.alphas()[a];
    slice.reachable = curves.mean.back();
    for (const int k : result.surface_k) {
      slice.coverage.push_back(curves.mean[k - 1]);
      if (!curves.lower.empty()) slice.lower.push_back(curves.lower[k - 1]);
    }
    for (const double rho : result.surface_rho) {
      slice.window.push_back(smallest_window(curves.decisive(), rho));
    }
  }
}

/// K_b = min{K : E c_t(K) >= rho_K}, Eq. 4; with a confidence, of its lower bound.
schemas::WindowResult choose_window(const std::string& precision, const CoverageSurface& surface,
                                    const schemas::Config& config, base::Progress& progress) {
  const schemas::WindowConfig& wanted = config.window;
  const auto& alphas = surface.alphas();
  const auto alpha = std::lower_bound(alphas.begin(), alphas.end(), wanted.alpha) - alphas.begin();
  Curves curves = curves_of(surface, static_cast<std::size_t>(alpha), config);
  const std::vector<double>& decisive = curves.decisive();
  if (decisive.back() < wanted.rho_k) fail_unreachable(precision, decisive.back(), wanted);

  schemas::WindowResult result;
  result.alpha = wanted.alpha;
  result.rho_k = wanted.rho_k;
  result.reachable = curves.mean.back();
  const int window = smallest_window(decisive, wanted.rho_k);
  result.capped = window == 0;
  result.window = result.capped ? surface.cap() : window;
  result.coverage_mean = curves.mean[result.window - 1];
  if (result.capped) {
    progress.warn("precision " + precision + ": window.cap = " + std::to_string(wanted.cap) +
                  " stops the search at a mean coverage of " + base::number(result.coverage_mean) +
                  (curves.lower.empty() ? "" : " (lower bound " +
                                                   base::number(decisive[result.window - 1]) +
                                                   ")") +
                  " < rho_k = " + base::number(wanted.rho_k));
  }
  if (!curves.lower.empty()) {
    result.coverage_confidence = wanted.confidence;
    result.coverage_lower = curves.lower[result.window - 1];
    curves.lower.pop_back();
  }
  curves.mean.pop_back();
  result.curve_coverage = std::move(curves.mean);
  result.curve_lower = std::move(curves.lower);
  result.curve_k.resize(result.curve_coverage.size());
  std::iota(result.curve_k.begin(), result.curve_k.end(), 1);
  add_surface(result, surface, config);
  return result;
}

/// Windows of a size per step, where window.adaptive asks for them: another pass.
void add_adaptive_windows(const ValidationTraces& traces, const schemas::Config& config,
                          std::vector<schemas::WindowResult>& results, base::Progress& progress) {
  if (config.window.adaptive == 0.0) return;
  std::vector<AdaptiveCurve> curves;
  for (const schemas::WindowResult& r : results) curves.emplace_back(r.alpha, r.window);
  statistics::ClusterNumbers numbers(traces.books());
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    const std::vector<Site> sites = sites_of(part, steps, &numbers);
    for (std::size_t p = 0; p < curves.size(); ++p) curves[p].add(part, p, sites);
    progress.advance(1);
  });
  for (std::size_t p = 0; p < curves.size(); ++p) {
    results[p].adaptive = curves[p].choose(config.window.adaptive, config.window.confidence,
                                           kResamples, config.run.seed);
  }
}

/// What every validation step says about the chosen window.
struct StepFigures {
  std::vector<double> coverage;
  std::int64_t positive = 0, uncovered = 0;
};

std::vector<StepFigures> step_figures(const ValidationTraces& traces, const schemas::Config& config,
                                      const std::vector<schemas::WindowResult>& windows,
                                      base::Progress& progress) {
  std::vector<StepFigures> all(windows.size());
  statistics::StepWindow window;
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    for (std::size_t p = 0; p < windows.size(); ++p) {
      for (const std::int64_t step : steps) {
        window.assign(part, p, step, windows[p].alpha, windows[p].window, windows[p].window_mass());
        all[p].coverage.push_back(window.coverage());
        all[p].positive += window.risky(config.labels.epsilon, config.labels.rho_c);
        all[p].uncovered += window.uncovered(config.labels.epsilon, config.labels.rho_c);
      }
    }
    progress.advance(1);
  });
  return all;
}

void add_step_figures(schemas::WindowResult& result, StepFigures figures) {
  const auto steps = static_cast<double>(figures.coverage.size());
  result.positive_rate = static_cast<double>(figures.positive) / steps;
  result.uncovered_rate = static_cast<double>(figures.uncovered) / steps;
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
  const std::int64_t passes = config.window.adaptive > 0.0 ? 3 : 2;
  progress.begin("calibrate", passes * traces.parts(), "parts");
  if (config.window.confidence > 0.0 && traces.books() < statistics::kEnoughBooks) {
    progress.warn(
        "fewer than 20 validation books: the coverage bound resamples sites and is approximate");
  }
  std::vector<schemas::WindowResult> results;
  for (const CoverageSurface& surface : coverage_surfaces(traces, config, progress)) {
    results.push_back(
        choose_window(traces.precisions()[results.size()], surface, config, progress));
  }
  add_adaptive_windows(traces, config, results, progress);
  std::vector<StepFigures> figures = step_figures(traces, config, results, progress);
  schemas::Windows windows;
  for (std::size_t p = 0; p < results.size(); ++p) {
    add_step_figures(results[p], std::move(figures[p]));
    windows.emplace(traces.precisions()[p], std::move(results[p]));
  }
  progress.end();
  schemas::write_windows(file, windows);
  stage.finish({file});
}

}  // namespace dgap::calibrator
