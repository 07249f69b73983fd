#include <stdexcept>
#include <utility>

#include "schemas/results/json_file.hpp"
#include "schemas/results/results.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
using Column = std::vector<double> ThresholdCurve::*;

constexpr std::pair<const char*, Column> kColumns[] = {
    {"tau", &ThresholdCurve::tau},
    {"rate", &ThresholdCurve::rate},
    {"drift", &ThresholdCurve::drift},
    {"kl", &ThresholdCurve::kl},
    {"top1_agreement", &ThresholdCurve::top1_agreement},
    {"perplexity", &ThresholdCurve::perplexity},
    {"kl_worse_share", &ThresholdCurve::kl_worse_share},
    {"worse_by_book", &ThresholdCurve::worse_by_book},
    {"worse_bound", &ThresholdCurve::worse_bound},
};

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json to_json(const WorseBound& worse) {
  return {{"books", worse.books},
          {"confidence", worse.confidence},
          {"limit", or_null(worse.limit)},
          {"tau", or_null(worse.tau)}};
}

WorseBound worse_from(const ResultObject& object) {
  WorseBound worse;
  worse.books = object.integer("books", 0, std::int64_t{1} << 40);
  worse.confidence = object.number("confidence");
  worse.limit = object.optional_number("limit");
  worse.tau = object.optional_number("tau");
  object.finish();
  return worse;
}

json to_json(const std::map<std::string, DomainFigures>& domains) {
  json object = json::object();
  for (const auto& [name, d] : domains) {
    object[name] = {{"steps", d.steps},
                    {"kl_before", d.kl_before},
                    {"kl_after", d.kl_after},
                    {"kl_always", d.kl_always},
                    {"standard_error", d.standard_error},
                    {"harmed", d.harmed}};
  }
  return object;
}

std::map<std::string, DomainFigures> domains_from(const ResultObject& object) {
  std::map<std::string, DomainFigures> domains;
  for (const std::string& name : object.keys()) {
    const ResultObject figures = object.object(name.c_str());
    DomainFigures& d = domains[name];
    d.steps = figures.integer("steps", 1, std::int64_t{1} << 48);
    d.kl_before = figures.number("kl_before");
    d.kl_after = figures.number("kl_after");
    d.kl_always = figures.number("kl_always");
    d.standard_error = figures.number("standard_error");
    d.harmed = figures.boolean("harmed");
    figures.finish();
  }
  object.finish();
  return domains;
}

json to_json(const std::optional<Escalation>& e) {
  if (!e) return nullptr;
  return {{"tau", e->tau}, {"rate", e->rate}, {"precision", e->precision}, {"recall", e->recall}};
}

std::optional<Escalation> escalation_from(const ResultObject& threshold) {
  if (threshold.is_null("escalate")) return std::nullopt;
  const ResultObject object = threshold.object("escalate");
  Escalation e;
  e.tau = object.number("tau");
  e.rate = object.number_or_nan("rate");
  e.precision = object.number_or_nan("precision");
  e.recall = object.number_or_nan("recall");
  object.finish();
  return e;
}

json to_json(const ThresholdResult& r) {
  json curve;
  for (const auto& [name, column] : kColumns) {
    if ((r.curve.*column).size() != r.curve.tau.size()) {
      throw std::invalid_argument(std::string("the threshold curve's column ") + name +
                                  " has the wrong length");
    }
    curve[name] = r.curve.*column;
  }
  return {{"tau", r.tau},
          {"raised_from", or_null(r.raised_from)},
          {"policy", r.policy},
          {"mode", r.mode},
          {"drift_before", r.drift_before},
          {"kl_before", r.kl_before},
          {"worse", to_json(r.worse)},
          {"domains", to_json(r.domains)},
          {"escalate", to_json(r.escalate)},
          {"curve", std::move(curve)}};
}

ThresholdResult threshold_from(const ResultObject& object) {
  ThresholdResult r;
  r.tau = object.number("tau");
  r.raised_from = object.optional_number("raised_from");
  r.policy = object.text("policy");
  r.mode = object.text("mode");
  if (r.mode != "threshold" && r.mode != "always" && r.mode != "off") {
    object.fail("mode", "must be threshold, always or off, got \"" + r.mode.substr(0, 60) + "\"");
  }
  r.drift_before = object.number_or_nan("drift_before");
  r.kl_before = object.number_or_nan("kl_before");
  r.worse = worse_from(object.object("worse"));
  r.domains = domains_from(object.object("domains"));
  r.escalate = escalation_from(object);
  const ResultObject curve = object.object("curve");
  for (const auto& [name, column] : kColumns) {
    r.curve.*column = curve.numbers_or_nan(name);
    if ((r.curve.*column).size() != r.curve.tau.size()) curve.fail(name, "is not as long as tau");
  }
  curve.finish();
  object.finish();
  return r;
}

}  // namespace

void write_thresholds(const std::filesystem::path& file, const Thresholds& thresholds) {
  json precisions = json::object();
  for (const auto& [name, result] : thresholds) precisions[name] = to_json(result);
  write_json_file(file, {{"version", 1}, {"precisions", precisions}});
}

Thresholds read_thresholds(const std::filesystem::path& file) {
  const json value = read_json_file(file);
  const ResultObject root(value, file.string() + ":");
  const ResultObject precisions = root.object("precisions");
  Thresholds thresholds;
  for (const std::string& name : precisions.keys()) {
    thresholds[name] = threshold_from(precisions.object(name.c_str()));
  }
  root.integer("version", 1, 1);
  root.finish();
  return thresholds;
}

}  // namespace dgap::schemas
