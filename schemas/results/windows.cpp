#include <array>
#include <stdexcept>

#include "schemas/results/json_file.hpp"
#include "schemas/results/results.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 5> kQuantiles = {"5", "25", "50", "75", "95"};
constexpr std::int64_t kMaxWindow = 1'000'000;

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json to_json(const CoverageSlice& slice) {
  return {{"alpha", slice.alpha},
          {"reachable", slice.reachable},
          {"coverage", slice.coverage},
          {"lower", slice.lower},
          {"window", slice.window}};
}

json surface_json(const WindowResult& r) {
  json slices = json::array();
  for (const CoverageSlice& slice : r.surface) slices.push_back(to_json(slice));
  return {{"k", r.surface_k}, {"rho", r.surface_rho}, {"alphas", slices}};
}

json adaptive_json(const WindowResult& r) {
  if (!r.adaptive) return nullptr;
  const AdaptiveWindow& a = *r.adaptive;
  return {{"share", a.share},
          {"mass", a.mass},
          {"window_mean", a.window_mean},
          {"coverage", {{"mean", a.coverage_mean}, {"lower", or_null(a.coverage_lower)}}},
          {"curve",
           {{"mass", a.curve_mass}, {"window", a.curve_window}, {"coverage", a.curve_coverage}}}};
}

json to_json(const WindowResult& r) {
  const bool quantiles_fit =
      r.coverage_quantiles.empty() || r.coverage_quantiles.size() == kQuantiles.size();
  if (r.curve_k.size() != r.curve_coverage.size() || !quantiles_fit) {
    throw std::invalid_argument("a window's curve or quantiles have the wrong length");
  }
  json quantiles = json::object();
  for (std::size_t i = 0; i < r.coverage_quantiles.size(); ++i)
    quantiles[kQuantiles[i]] = r.coverage_quantiles[i];
  return {{"window", r.window},
          {"alpha", r.alpha},
          {"rho_k", r.rho_k},
          {"coverage",
           {{"mean", r.coverage_mean},
            {"lower", or_null(r.coverage_lower)},
            {"confidence", or_null(r.coverage_confidence)},
            {"quantiles", quantiles}}},
          {"reachable", r.reachable},
          {"capped", r.capped},
          {"positive_rate", r.positive_rate},
          {"uncovered_rate", r.uncovered_rate},
          {"curve", {{"k", r.curve_k}, {"coverage", r.curve_coverage}, {"lower", r.curve_lower}}},
          {"surface", surface_json(r)},
          {"adaptive", adaptive_json(r)}};
}

void read_coverage(const ResultObject& coverage, WindowResult& r) {
  r.coverage_mean = coverage.number("mean");
  r.coverage_lower = coverage.optional_number("lower");
  r.coverage_confidence = coverage.optional_number("confidence");
  const ResultObject quantiles = coverage.object("quantiles");
  if (!quantiles.keys().empty()) {
    for (const char* percent : kQuantiles)
      r.coverage_quantiles.push_back(quantiles.number_or_nan(percent));
  }
  if (quantiles.keys().size() != r.coverage_quantiles.size())
    coverage.fail("quantiles", "are not 5, 25, 50, 75 and 95");
  coverage.finish();
}

/// `column` may be empty instead, where `optional`.
template <class Column>
void check_length(const ResultObject& object, const char* key, const Column& column,
                  std::size_t length, bool optional = false) {
  if (column.size() == length || (optional && column.empty())) return;
  object.fail(key, "has " + std::to_string(column.size()) + " numbers, expected " +
                       std::to_string(length));
}

void read_surface(const ResultObject& surface, WindowResult& r) {
  r.surface_k = surface.integers("k");
  r.surface_rho = surface.numbers_or_nan("rho");
  for (const ResultObject& object : surface.objects("alphas")) {
    CoverageSlice& slice = r.surface.emplace_back();
    slice.alpha = object.number("alpha");
    slice.reachable = object.number("reachable");
    slice.coverage = object.numbers_or_nan("coverage");
    slice.lower = object.numbers_or_nan("lower");
    slice.window = object.integers("window");
    check_length(object, "coverage", slice.coverage, r.surface_k.size());
    check_length(object, "lower", slice.lower, r.surface_k.size(), true);
    check_length(object, "window", slice.window, r.surface_rho.size());
    object.finish();
  }
  surface.finish();
}

AdaptiveWindow read_adaptive(const ResultObject& object) {
  AdaptiveWindow a;
  a.share = object.number("share");
  a.mass = object.number("mass");
  if (!(a.mass >= 0.0 && a.mass <= 1.0)) object.fail("mass", "must be from 0 to 1");
  a.window_mean = object.number("window_mean");
  const ResultObject coverage = object.object("coverage");
  a.coverage_mean = coverage.number("mean");
  a.coverage_lower = coverage.optional_number("lower");
  coverage.finish();
  const ResultObject curve = object.object("curve");
  a.curve_mass = curve.numbers_or_nan("mass");
  a.curve_window = curve.numbers_or_nan("window");
  a.curve_coverage = curve.numbers_or_nan("coverage");
  check_length(curve, "window", a.curve_window, a.curve_mass.size());
  check_length(curve, "coverage", a.curve_coverage, a.curve_mass.size());
  curve.finish();
  object.finish();
  return a;
}

WindowResult window_from(const ResultObject& object) {
  WindowResult r;
  r.window = static_cast<int>(object.integer("window", 1, kMaxWindow));
  r.alpha = object.number("alpha");
  r.rho_k = object.number("rho_k");
  read_coverage(object.object("coverage"), r);
  r.reachable = object.number("reachable");
  r.capped = object.boolean("capped");
  r.positive_rate = object.number_or_nan("positive_rate");
  r.uncovered_rate = object.number_or_nan("uncovered_rate");
  const ResultObject curve = object.object("curve");
  r.curve_k = curve.integers("k");
  r.curve_coverage = curve.numbers_or_nan("coverage");
  if (r.curve_k.size() != r.curve_coverage.size()) curve.fail("coverage", "is not as long as k");
  r.curve_lower = curve.numbers_or_nan("lower");
  check_length(curve, "lower", r.curve_lower, r.curve_k.size(), true);
  curve.finish();
  read_surface(object.object("surface"), r);
  if (!object.is_null("adaptive")) r.adaptive = read_adaptive(object.object("adaptive"));
  object.finish();
  return r;
}

}  // namespace

void write_windows(const std::filesystem::path& file, const Windows& windows) {
  json precisions = json::object();
  for (const auto& [name, result] : windows) precisions[name] = to_json(result);
  write_json_file(file, {{"version", 1}, {"precisions", precisions}});
}

Windows read_windows(const std::filesystem::path& file) {
  const json value = read_json_file(file);
  const ResultObject root(value, file.string() + ":");
  const ResultObject precisions = root.object("precisions");
  Windows windows;
  for (const std::string& name : precisions.keys())
    windows[name] = window_from(precisions.object(name.c_str()));
  root.integer("version", 1, 1);
  root.finish();
  return windows;
}

}  // namespace dgap::schemas
