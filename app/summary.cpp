#include "app/summary.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "schemas/results/json_file.hpp"
#include "schemas/results/results.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

/// The number at `pointer`, null where there is none.
Json figure(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json::json_pointer at(pointer);
  if (!object.contains(at) || !object.at(at).is_number()) return nullptr;
  return object.at(at).get<double>();
}

Json precision_summary(const nlohmann::json& e, int window) {
  return {{"bits", {figure(e, "/bits_per_element/key"), figure(e, "/bits_per_element/value")}},
          {"window", window},
          {"reference_perplexity", figure(e, "/reference/perplexity")},
          {"perplexity", {figure(e, "/quantized/perplexity"), figure(e, "/restored/perplexity")}},
          {"kl", {figure(e, "/quantized/kl"), figure(e, "/restored/kl")}},
          {"top1_agreement",
           {figure(e, "/quantized/top1_agreement"), figure(e, "/restored/top1_agreement")}},
          {"correction_rate", figure(e, "/restored/correction_rate")}};
}

std::string shown(const Json& value, const char* format) {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>())
                           : std::string("-");
}

std::string pair(const Json& two, const char* format, const char* between) {
  return shown(two[0], format) + between + shown(two[1], format);
}

}  // namespace

Json summary(const schemas::Config& config) {
  const std::filesystem::path run = config.run_directory();
  const nlohmann::json evaluation = schemas::read_json_file(run / "evaluation.json");
  const schemas::Windows windows = schemas::read_windows(run / "windows.json");
  Json answer;
  for (const schemas::Scheme& scheme : config.precisions) {
    const auto window = windows.find(scheme.name);
    const nlohmann::json::json_pointer at =
        nlohmann::json::json_pointer("/precisions") / scheme.name;
    answer["precisions"][scheme.name] =
        precision_summary(evaluation.contains(at) ? evaluation.at(at) : nlohmann::json::object(),
                          window == windows.end() ? 0 : window->second.window);
  }
  answer["bundle"] = (run / "bundle").string();
  if (std::filesystem::exists(run / "report.html"))
    answer["report"] = (run / "report.html").string();
  return answer;
}

std::string summary_table(const Json& summary) {
  constexpr const char* kRow = "{:<16} {:>13} {:>5} {:>17} {:>19} {:>15} {:>10}\n";
  std::string out = fmt::format(fmt::runtime(kRow), "precision", "bits K/V", "K_b", "perplexity",
                                "KL (nat)", "top-1 (%)", "corrected");
  std::string reference = "-";
  for (const auto& [name, p] : summary.at("precisions").items()) {
    Json top1 = p["top1_agreement"];
    for (Json& value : top1) {
      if (value.is_number()) value = 100 * value.get<double>();
    }
    const Json& rate = p["correction_rate"];
    out += fmt::format(fmt::runtime(kRow), name, pair(p["bits"], "{:.3g}", " / "),
                       p["window"].get<int>(), pair(p["perplexity"], "{:.2f}", " > "),
                       pair(p["kl"], "{:.3g}", " > "), pair(top1, "{:.1f}", " > "),
                       rate.is_number() ? fmt::format("{:.1f} %", 100 * rate.get<double>()) : "-");
    reference = shown(p["reference_perplexity"], "{:.2f}");
  }
  return out + "before > after correction; perplexity of the reference: " + reference +
         "\nbundle: " + summary.at("bundle").get<std::string>() + "\n" +
         (summary.contains("report") ? "report: " + summary.at("report").get<std::string>() + "\n"
                                     : "");
}

}  // namespace dgap::app
