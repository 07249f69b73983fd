#include <algorithm>
#include <cmath>

#include "schemas/bundle/manifest.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::schemas {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormatVersion = "1.0";
constexpr std::string_view kMinRuntimeVersion = "0.1.0";  // the first that reads format 1.0

/// null stands for a number that is not finite: JSON has no other way to say it.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number_or_null(const std::optional<double>& value) {
  return value ? number_or_null(*value) : Json(nullptr);
}

/// A part that the caller gives as text, keys in alphabetical order.
Json part(const std::string& text, const std::string& where) {
  return Json::parse(parse_json_object(text, where, kMaxDepth - 3).dump());
}

Json network(const NetworkInfo& info) {
  return {{"architecture", info.architecture}, {"tensors", info.tensors}, {"layers", info.layers}};
}

Json detector(const NetworkInfo& info) {
  Json object = network(info);
  if (info.architecture == "constant") object["constant_risk"] = number_or_null(info.constant_risk);
  if (info.escalate) object["escalate"] = true;
  if (info.calibration) {
    object["calibration"] = {{"scale", number_or_null(info.calibration->scale)},
                             {"offset", number_or_null(info.calibration->offset)}};
  }
  return object;
}

Json corrector(const NetworkInfo& info) {
  Json object = network(info);
  object["inputs"] = info.inputs;
  object["mass"] = info.mass;
  if (info.has_vectors() && info.architecture != "none") object["rank"] = info.rank;
  if (info.form != "candidate") object["form"] = info.form;
  if (info.architecture == "transformer") {
    object["heads"] = info.heads;
    object["mass_layers"] = info.mass_layers;
  }
  return object;
}

/// Those that the caller names, and those that the entries imply.
std::vector<std::string> required_features(const Bundle& bundle) {
  std::vector<std::string> features = implied_features(bundle);
  features.insert(features.end(), bundle.required_features.begin(), bundle.required_features.end());
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

Json threshold(const PrecisionEntry& entry) {
  Json object = {{"tau", number_or_null(entry.tau)},
                 {"escalate_tau", number_or_null(entry.escalate_tau)},
                 {"policy", entry.threshold_policy}};
  if (!entry.online) return object;
  object["online"] = {{"rate", number_or_null(entry.online->rate)},
                      {"step", number_or_null(entry.online->step)},
                      {"low", number_or_null(entry.online->low)},
                      {"high", number_or_null(entry.online->high)}};
  return object;
}

Json precision(const std::string& name, const PrecisionEntry& entry) {
  Json object = {{"scheme", part(entry.scheme_json, name + ": scheme")},
                 {"window", entry.window},
                 {"alpha", number_or_null(entry.alpha)},
                 {"rho_k", number_or_null(entry.rho_k)},
                 {"coverage",
                  {{"mean", number_or_null(entry.coverage_mean)},
                   {"lower", number_or_null(entry.coverage_lower)},
                   {"confidence", number_or_null(entry.coverage_confidence)}}},
                 {"labels",
                  {{"epsilon", number_or_null(entry.epsilon)},
                   {"rho_c", number_or_null(entry.rho_c)},
                   {"positive_rate", number_or_null(entry.positive_rate)}}},
                 {"mode", entry.mode},
                 {"threshold", threshold(entry)},
                 {"allocation", nullptr},
                 {"adapters", nullptr},
                 {"detector", detector(entry.detector)},
                 {"corrector", corrector(entry.corrector)},
                 {"validation", part(entry.validation_json, name + ": validation")}};
  if (entry.window_mass != 1.0) object["window_mass"] = number_or_null(entry.window_mass);
  return object;
}

}  // namespace

std::string manifest_text(const Bundle& bundle, const std::vector<FileEntry>& entries) {
  const BaseModel& model = bundle.base_model;
  Json precisions = Json::object();
  for (const auto& [name, entry] : bundle.precisions) precisions[name] = precision(name, entry);
  Json files = Json::array();
  for (const FileEntry& file : entries) {
    files.push_back(
        {{"path", file.path}, {"role", file.role}, {"size", file.size}, {"sha256", file.sha256}});
  }
  const Json root = {
      {"format", "dgap-bundle"},
      {"format_version", kFormatVersion},
      {"min_runtime_version", kMinRuntimeVersion},
      {"required_features", required_features(bundle)},
      {"license", model.license},
      {"producer",
       {{"name", "dgap"},
        {"version", bundle.producer_version},
        {"commit", bundle.producer_commit}}},
      {"base_model",
       {{"name", model.name},
        {"architectures", model.architectures},
        {"vocab_size", model.vocab_size},
        {"logits_width", model.logits_width},
        {"hidden_size", model.hidden_size},
        {"tokenizer_sha256", model.tokenizer_sha256},
        {"model_sha256", model.model_sha256}}},
      {"features", {{"version", bundle.features_version}, {"names", bundle.feature_names}}},
      {"precisions", precisions},
      {"files", files}};
  return root.dump(2) + "\n";
}

}  // namespace dgap::schemas
