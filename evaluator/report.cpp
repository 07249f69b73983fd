#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/version.hpp"
#include "evaluator/evaluator.hpp"
#include "evaluator/plots.hpp"
#include "evaluator/report_controls.hpp"
#include "evaluator/report_domains.hpp"
#include "evaluator/report_format.hpp"
#include "evaluator/report_page.hpp"
#include "evaluator/training_section.hpp"
#include "schemas/results/results.hpp"

namespace dgap::evaluator {
namespace {

using nlohmann::json;

struct Inputs {
  schemas::Windows windows;
  schemas::Thresholds thresholds;
  json evaluation;
  std::vector<std::string> names;  // precisions in the config's order
};

std::string damage_table(const Inputs& in) {
  std::string out = "<table>" + row({"precision", "bits K / V", "perplexity", "KL", "drift", "top-1 agreement",
                                     "risky steps", "K<sub>b</sub>", "coverage", "uncovered"},
                                    "th");
  for (const std::string& name : in.names) {
    const json& e = in.evaluation["precisions"][name];
    const json& i = in.evaluation["intervals"]["precisions"][name];
    const schemas::WindowResult& w = in.windows.at(name);
    out += "<tr><th>" + escape(name) + "</th><td>" + significant(at(e, "bits_per_element/key")) + " / " +
           significant(at(e, "bits_per_element/value")) + "</td>" +
           with_interval(e, i, "quantized/perplexity", one_digit) + with_interval(e, i, "quantized/kl", significant) +
           with_interval(e, i, "quantized/drift", three_digits) +
           with_interval(e, i, "quantized/top1_agreement", share) + with_interval(e, i, "positive_rate", share) +
           "<td>" + std::to_string(w.window) + (w.capped ? "*" : "") + "</td>" +
           with_interval(e, i, "coverage/mean", three_digits) + with_interval(e, i, "uncovered_rate", share) + "</tr>";
  }
  return out + "</table>";
}

std::string repair_table(const Inputs& in) {
  std::string out =
      "<table>" + row({"precision", "mode, &tau;", "corrected", "KL before", "KL after", "removed", "made worse",
                       "KL, every step", "ceiling, risky steps", "ceiling, every step", "gap closed", "detector AUC",
                       "perplexity after", "top-1 after"},
                      "th");
  for (const std::string& name : in.names) {
    const json& e = in.evaluation["precisions"][name];
    const json& i = in.evaluation["intervals"]["precisions"][name];
    const schemas::ThresholdResult& t = in.thresholds.at(name);
    const double before = at(e, "quantized/kl"), after = at(e, "restored/kl"), ceiling = at(e, "oracle_all/kl");
    const double removed = (before - after) / before;
    const double closed = (before - after) / (before - ceiling);
    out += "<tr><th>" + escape(name) + "</th><td>" + escape(t.mode) +
           (t.mode == "threshold" ? " " + fixed(t.tau, 3) : "") + "</td>" +
           with_interval(e, i, "restored/correction_rate", share) + with_interval(e, i, "quantized/kl", significant) +
           with_interval(e, i, "restored/kl", significant) + "<td>" + percent(removed) + "</td>" +
           with_interval(e, i, "restored/kl_worse_share", share) +
           with_interval(e, i, "restored_always/kl", significant) +
           with_interval(e, i, "oracle_risky/kl", significant) + with_interval(e, i, "oracle_all/kl", significant) +
           "<td>" + percent(closed) + "</td><td>" + fixed(at(e, "detector/auc"), 3) + "</td>" +
           with_interval(e, i, "restored/perplexity", one_digit) +
           with_interval(e, i, "restored/top1_agreement", share) + "</tr>";
  }
  return out + "</table>";
}

std::string coverage_plot(const Inputs& in) {
  std::vector<Line> lines;
  std::vector<Marker> markers;
  double high = 2, rho = 0;
  for (std::size_t i = 0; i < in.names.size(); ++i) {
    const schemas::WindowResult& w = in.windows.at(in.names[i]);
    Line line{in.names[i] + " (K_b = " + std::to_string(w.window) + ")", {}, w.curve_coverage,
              static_cast<int>(i)};
    for (const int k : w.curve_k) line.x.push_back(k);
    if (!line.x.empty()) high = std::max(high, line.x.back());
    markers.push_back({static_cast<double>(w.window), w.coverage_mean, "", static_cast<int>(i)});
    rho = w.rho_k;
    lines.push_back(std::move(line));
  }
  return line_plot({"window size K", true, 1, high}, {"mean coverage c(K)", false, 0, 1}, lines, markers, {rho});
}

std::string kl_bars(const Inputs& in) {
  std::vector<BarSeries> series = {{"quantised", {}, 0}, {"restored", {}, 2}, {"ceiling of any window corrector", {}, 7}};
  double low = 1, high = 1e-3;
  for (const std::string& name : in.names) {
    const json& e = in.evaluation["precisions"][name];
    const char* paths[] = {"quantized/kl", "restored/kl", "oracle_all/kl"};
    for (std::size_t s = 0; s < series.size(); ++s) {
      const double v = at(e, paths[s]);
      series[s].values.push_back(v);
      if (v > 0) low = std::min(low, v), high = std::max(high, v);
    }
  }
  low = std::max(1e-6, std::pow(10, std::floor(std::log10(low))));
  return bar_plot(in.names, series, {"KL(reference || decode), nat", true, low, high * 1.3});
}

std::string threshold_plots(const Inputs& in) {
  std::string out;
  for (const std::string& name : in.names) {
    const schemas::ThresholdResult& t = in.thresholds.at(name);
    if (t.curve.tau.empty() || t.kl_before <= 0) continue;
    std::vector<double> relative;
    for (const double kl : t.curve.kl) relative.push_back(kl / t.kl_before);
    const auto [least, most] = std::minmax_element(relative.begin(), relative.end());
    double chosen = 1;
    for (std::size_t i = 0; i < t.curve.tau.size(); ++i) {
      if (t.curve.tau[i] <= t.tau) chosen = relative[i];
    }
    out += "<figure><figcaption>" + escape(name) + "</figcaption>" +
           line_plot({"threshold \xcf\x84", false, 0, 1},
                     {"share", false, std::min(0.0, *least), std::max(1.05, std::min(2.0, *most * 1.02))},
                     {{"KL after / KL before", t.curve.tau, relative, 0},
                      {"correction rate", t.curve.tau, t.curve.rate, 3, true},
                      {"share of steps made worse", t.curve.tau, t.curve.kl_worse_share, 1, true}},
                     {{t.tau, chosen, t.mode == "off" ? "off" : "\xcf\x84 = " + fixed(t.tau, 3), 0}}, {1.0}) +
           "</figure>";
  }
  return out;
}

std::string step_plot(const Inputs& in) {
  std::vector<Line> lines;
  double low = 1e9, high = 1e-9, last = 1;
  for (std::size_t i = 0; i < in.names.size(); ++i) {
    const json& by_step = in.evaluation["precisions"][in.names[i]]["by_step"];
    Line line{in.names[i], by_step["first_step"].get<std::vector<double>>(), by_step["kl"].get<std::vector<double>>(),
              static_cast<int>(i)};
    for (const double v : line.y) {
      if (v > 0) low = std::min(low, v), high = std::max(high, v);
    }
    if (!line.x.empty()) last = std::max(last, line.x.back());
    lines.push_back(std::move(line));
  }
  if (low > high) return "";
  return line_plot({"decode step", false, 0, last}, {"mean KL, nat", true, low * 0.8, high * 1.2}, lines, {});
}

/// "92 % / 57 %": tokens right, and answers with every token right.
std::string both(const json& score) {
  return percent(at(score, "token"), 0) + " / " + percent(at(score, "exact"), 0);
}

/// One row of the retrieval table: a score per task, from `where` of each task's object.
std::string retrieval_row(const std::string& name, const json& tasks, const std::string& where) {
  std::string out = "<tr><th>" + name + "</th>";
  const auto pointer = json::json_pointer(where);
  for (const auto& [task, result] : tasks.items())
    out += "<td>" + both(result.contains(pointer) ? result.at(pointer) : json()) + "</td>";
  return out + "</tr>";
}

std::string retrieval_table(const Inputs& in) {
  const json& tasks = in.evaluation["tasks"];
  if (tasks.empty()) return "<p>Not run (evaluate.retrieval.cases is 0).</p>";
  const json& first = *tasks.begin();
  std::vector<std::string> heads = {"precision"};
  for (const auto& [task, result] : tasks.items()) heads.push_back(escape(task));
  std::string out = "<p>" + std::to_string(first["cases"].get<int>()) +
                    " prompts of each task, of up to " +
                    std::to_string(first["context"].get<int>()) +
                    " tokens. Share of answer tokens that are right / of answers with every token "
                    "right. <i>count</i> is a control: there is nothing to retrieve.</p><table>" +
                    row(heads, "th") + retrieval_row("reference (FP16 cache)", tasks, "/reference");
  for (const std::string& name : in.names) {
    const std::string where = "/precisions/" + name + "/";
    out += retrieval_row(escape(name), tasks, where + "quantized") +
           retrieval_row(escape(name) + ", restored", tasks, where + "restored") +
           retrieval_row(escape(name) + ", ceiling of the window", tasks, where + "oracle");
  }
  return out + "</table>";
}

Inputs read_inputs(const schemas::Config& config) {
  const auto directory = config.run_directory();
  Inputs in{schemas::read_windows(directory / "windows.json"), schemas::read_thresholds(directory / "threshold.json"),
            json::parse(base::read_file(directory / "evaluation.json"), nullptr, false), {}};
  if (in.evaluation.is_discarded()) throw base::IoError((directory / "evaluation.json").string() + ": is not JSON");
  for (const schemas::Scheme& scheme : config.precisions) in.names.push_back(scheme.name);
  return in;
}

}  // namespace

void report(const schemas::Config& config, base::Progress& progress) {
  const auto directory = config.run_directory();
  std::vector<std::filesystem::path> inputs = {directory / "windows.json", directory / "threshold.json",
                                               directory / "evaluation.json"};
  for (const auto& file : training_files(config)) inputs.push_back(file);
  const schemas::Stage stage(config, "report", inputs);
  if (stage.done()) return progress.info("report: up to date");
  const Inputs in = read_inputs(config);
  const json& first = in.evaluation["precisions"][in.names.front()];
  PageContent page;
  page.title = config.run.name;
  page.facts = {{"model", in.evaluation["model"].value("name", "")},
                {"held-out steps per precision", std::to_string(first["steps"].get<long>())},
                {"reference perplexity", one_digit(at(first, "reference/perplexity"))},
                {"corrector", config.corrector.architecture + ", objective " + config.corrector.objective},
                {"resampled", in.evaluation["intervals"].value("clusters", "")},
                {"dgap", std::string(base::version()) + " (" + std::string(base::commit()).substr(0, 12) + ")"}};
  page.damage = damage_table(in);
  page.coverage = coverage_plot(in);
  page.bars = kl_bars(in);
  page.repair = repair_table(in);
  page.thresholds = threshold_plots(in);
  page.training = training_table(config);
  page.learning_curves = learning_curves(config);
  page.by_step = step_plot(in);
  page.controls = controls_table(in.evaluation, in.names);
  page.escalation = escalation_table(in.evaluation, in.names);
  page.online = online_table(in.evaluation, in.names);
  page.windows = window_table(in.evaluation, in.names);
  page.by_coverage = coverage_plots(in.evaluation, in.names);
  page.reliability = reliability_plot(in.evaluation, in.names);
  page.domains = domains_table(in.thresholds, in.names);
  page.retrieval = retrieval_table(in);
  base::write_file_atomically(directory / "report.html", render(page));
  stage.finish({directory / "report.html"});
}

}  // namespace dgap::evaluator
