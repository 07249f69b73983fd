#include "evaluator/report_controls.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "evaluator/plots.hpp"
#include "evaluator/report_format.hpp"

namespace dgap::evaluator {
namespace {

using nlohmann::json;

struct Control {
  const char* key;
  const char* title;
};
constexpr Control kControls[] = {{"quantized_ranking", "quantised ranking"},
                                 {"noise", "noise"},
                                 {"noise_resorted", "noise, re-sorted"},
                                 {"shift", "shift"},
                                 {"oracle_detector", "corrector at risky steps"},
                                 {"oracle_risky", "ceiling, risky steps"},
                                 {"oracle_all", "ceiling, every step"},
                                 {"oracle_raw", "raw copy"}};

/// A column of evaluation.json, NaN for null.
std::vector<double> column(const json& object, const char* key) {
  std::vector<double> values;
  if (!object.contains(key)) return values;
  for (const json& value : object[key]) {
    values.push_back(value.is_number() ? value.get<double>()
                                       : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

/// KL, and the change against the uncorrected decode.
std::string kl_cell(const json& entry, const json& intervals, const std::string& key) {
  const double before = at(entry, "quantized/kl"), kl = at(entry, key + "/kl");
  std::string cell = with_interval(entry, intervals, key + "/kl", significant);
  const double change = (kl - before) / before;
  if (!std::isfinite(change)) return cell;
  const std::string text = (change > 0 ? "+" : "") + percent(change, 0);
  return cell.insert(cell.size() - 5, " <small>" + text + "</small>");
}

std::string plot_of(const std::string& name, const json& bins) {
  std::vector<double> middle = column(bins, "from");
  for (double& from : middle) from += 0.05;
  const std::vector<double> kl = column(bins, "kl");
  double high = 0.1;
  for (const double value : kl) high = std::isfinite(value) ? std::max(high, value) : high;
  std::vector<double> steps = column(bins, "share");  // drawn on the KL's scale
  for (double& share : steps) share *= high;
  return "<figure><figcaption>" + escape(name) + "</figcaption>" +
         line_plot({"coverage c of the step", false, 0, 1}, {"mean KL, nat", false, 0, high * 1.05},
                   {{"quantised", middle, kl, 0},
                    {"restored", middle, column(bins, "kl_restored"), 2},
                    {"ceiling of any window corrector", middle, column(bins, "kl_ceiling"), 7},
                    {"share of steps (full height: all)", middle, steps, 3, true}},
                   {}) +
         "</figure>";
}

Line reliability_line(const std::string& name, const json& detector, int colour, bool dashed) {
  const std::string error = fixed(at(detector, "calibration_error"), 3);
  Line line{name + " (error " + error + ")", {}, {}, colour, dashed};
  const json& bins = detector["reliability"];
  const std::vector<double> score = column(bins, "score"), frequency = column(bins, "frequency");
  for (std::size_t b = 0; b < score.size(); ++b) {
    if (!std::isfinite(score[b])) continue;
    line.x.push_back(score[b]), line.y.push_back(frequency[b]);
  }
  return line;
}

}  // namespace

std::string controls_table(const json& evaluation, const std::vector<std::string>& names) {
  std::vector<std::string> titles = {"precision", "KL"};
  for (const Control& control : kControls) titles.emplace_back(control.title);
  titles.emplace_back("noise, spread of draws");
  std::string out = "<table>" + row(titles, "th");
  for (const std::string& name : names) {
    const json& entry = evaluation["precisions"][name];
    const json& intervals = evaluation["intervals"]["precisions"][name];
    out += "<tr><th>" + escape(name) + "</th>" +
           with_interval(entry, intervals, "quantized/kl", significant);
    for (const Control& control : kControls) out += kl_cell(entry, intervals, control.key);
    const std::vector<double> draws = column(entry.value("noise", json::object()), "kl_by_draw");
    const auto [least, most] = std::minmax_element(draws.begin(), draws.end());
    out += "<td>" + (draws.empty() ? std::string("–") : significant(*most - *least)) + "</td></tr>";
  }
  return out + "</table>";
}

std::string escalation_table(const json& evaluation, const std::vector<std::string>& names) {
  std::string rows;
  for (const std::string& name : names) {
    const json& entry = evaluation["precisions"][name];
    if (!entry.contains("escalate")) continue;
    const json& intervals = evaluation["intervals"]["precisions"][name];
    rows += "<tr><th>" + escape(name) + "</th>" +
            with_interval(entry, intervals, "uncovered_rate", share) +
            with_interval(entry, intervals, "escalate/rate", share) +
            with_interval(entry, intervals, "escalate/precision", share) +
            with_interval(entry, intervals, "escalate/recall", share) + "<td>" +
            fixed(at(entry, "escalate/auc"), 3) + "</td></tr>";
  }
  if (rows.empty()) return "";
  return "<table>" +
         row({"precision", "uncovered", "escalated", "precision of it", "recall", "AUC"}, "th") +
         rows + "</table>";
}

std::string online_table(const json& evaluation, const std::vector<std::string>& names) {
  std::string rows;
  for (const std::string& name : names) {
    const json& entry = evaluation["precisions"][name];
    if (!entry.contains("online")) continue;
    const auto line = [&](const std::string& who, const json& figures, const char* tag) {
      rows += std::string("<tr><") + tag + ">" + escape(who) + "</" + tag + "><td>" +
              percent(at(figures, "fixed/correction_rate")) + "</td><td>" +
              percent(at(figures, "online/correction_rate")) + "</td><td>" +
              percent(at(figures, "fixed/rate_error")) + "</td><td>" +
              percent(at(figures, "online/rate_error")) + "</td><td>" +
              significant(at(figures, "kl_quantized")) + "</td><td>" +
              significant(at(figures, "fixed/kl")) + "</td><td>" +
              significant(at(figures, "online/kl")) + "</td></tr>";
    };
    const json& online = entry["online"];
    line(name + ", budget " + percent(at(online, "budget")), online, "th");
    for (const auto& [book, figures] : online["by_book"].items()) line(book, figures, "td");
  }
  if (rows.empty()) return "";
  return "<table>" +
         row({"precision, book", "corrected, fixed &tau;", "corrected, online",
              "off budget per sequence, fixed", "online", "KL before", "KL, fixed", "KL, online"},
             "th") +
         rows + "</table>";
}

std::string window_table(const json& evaluation, const std::vector<std::string>& names) {
  std::string rows;
  for (const std::string& name : names) {
    const json& entry = evaluation["precisions"][name];
    if (!entry.contains("adaptive_window")) continue;
    const auto line = [&](const std::string& who, const json& figures) {
      rows += "<tr><th>" + escape(who) + "</th><td>" + one_digit(at(figures, "window")) +
              "</td><td>" + percent(at(figures, "coverage")) + "</td><td>" +
              significant(at(figures, "kl")) + "</td><td>" +
              significant(at(figures, "kl_ceiling")) + "</td></tr>";
    };
    line(name + ", a window per step", entry["adaptive_window"]["adaptive"]);
    line(name + ", Kb at every step", entry["adaptive_window"]["fixed"]);
  }
  if (rows.empty()) return "";
  return "<table>" +
         row({"precision", "mean window", "coverage", "KL as served", "KL, ceiling"}, "th") + rows +
         "</table>";
}

std::string coverage_plots(const json& evaluation, const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    const json& entry = evaluation["precisions"][name];
    if (entry.contains("by_coverage")) out += plot_of(name, entry["by_coverage"]);
  }
  return out;
}

std::string reliability_plot(const json& evaluation, const std::vector<std::string>& names) {
  std::vector<Line> lines = {{"perfect", {0, 1}, {0, 1}, 7, true}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const json detector = evaluation["precisions"][names[i]].value("detector", json::object());
    if (!detector.contains("reliability")) continue;
    const auto colour = static_cast<int>(i);
    if (detector.contains("uncalibrated")) {
      const json& before = detector["uncalibrated"];
      lines.push_back(reliability_line(names[i] + " before", before, colour, true));
    }
    lines.push_back(reliability_line(names[i], detector, colour, false));
  }
  if (lines.size() == 1) return "";
  return line_plot({"risk that the detector states", false, 0, 1},
                   {"share of steps that are risky", false, 0, 1}, lines, {});
}

}  // namespace dgap::evaluator
