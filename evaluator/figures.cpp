#include "evaluator/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "statistics/reliability.hpp"

namespace dgap::evaluator {
namespace {

using nlohmann::json;
using Value = std::function<double(const Outcome&)>;
using Filter = std::function<bool(const Outcome&)>;

/// One figure: the mean of a value over the steps that a filter keeps, perhaps transformed.
struct Figure {
  std::string group, name;
  Value value;
  Filter filter = nullptr;   // all steps
  bool exponential = false;  // perplexity: exp of the mean
};

bool is_risky(const Outcome& o) { return o.risky; }

bool is_escalated(const Outcome& o) { return o.escalated; }
bool is_uncovered(const Outcome& o) { return o.uncovered; }

using Field = double (*)(const Metrics&);

/// perplexity, kl, drift, drift_risky, top1_agreement of one kind of decode, from the means of the
/// metrics' fields over its draws.
void add_fields(std::vector<Figure>& list, const std::string& group,
                const std::function<double(const Outcome&, Field)>& of) {
  const auto mean_of = [of](Field field) {
    return [of, field](const Outcome& o) { return of(o, field); };
  };
  const Field nll = [](const Metrics& m) { return m.nll; };
  const Field kl = [](const Metrics& m) { return m.kl; };
  const Field drift = [](const Metrics& m) { return m.drift; };
  const Field top1 = [](const Metrics& m) { return m.top1 ? 1.0 : 0.0; };
  list.push_back({group, "perplexity", mean_of(nll), nullptr, true});
  list.push_back({group, "kl", mean_of(kl)});
  list.push_back({group, "drift", mean_of(drift)});
  list.push_back({group, "drift_risky", mean_of(drift), is_risky});
  list.push_back({group, "top1_agreement", mean_of(top1)});
}

void add_decode(std::vector<Figure>& list, const std::string& group,
                const std::function<Metrics(const Outcome&)>& of) {
  add_fields(list, group, [of](const Outcome& o, Field field) { return field(of(o)); });
}

using Draws = std::array<Metrics, kNoiseSeeds>;

void add_draws(std::vector<Figure>& list, const std::string& group, Draws Outcome::*draws) {
  add_fields(list, group, [draws](const Outcome& o, Field field) {
    double sum = 0.0;
    for (const Metrics& draw : o.*draws) sum += field(draw);
    return sum / kNoiseSeeds;
  });
}

/// Without a second output, whose score is never 0 everywhere, there is nothing to say of it.
bool escalates(std::span<const Outcome> outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [](const Outcome& o) { return o.escalation > 0.0f; });
}

std::vector<Figure> all_figures(std::span<const Outcome> outcomes, double tau) {
  const auto fires = [tau](const Outcome& o) { return static_cast<double>(o.risk) > tau; };
  std::vector<Figure> list;
  list.push_back({"reference", "perplexity", [](const Outcome& o) { return o.reference_nll; }, nullptr, true});
  add_decode(list, "quantized", [](const Outcome& o) { return o.quantized; });
  add_decode(list, "restored", [](const Outcome& o) { return o.restored; });
  add_decode(list, "restored_always", [](const Outcome& o) { return o.always; });
  add_decode(list, "oracle_risky", [](const Outcome& o) { return o.risky ? o.oracle : o.quantized; });
  add_decode(list, "oracle_all", [](const Outcome& o) { return o.oracle; });
  add_decode(list, "oracle_common", [](const Outcome& o) { return o.oracle_common; });
  add_decode(list, "oracle_raw", [](const Outcome& o) { return o.oracle_raw; });
  add_decode(list, "oracle_detector", [](const Outcome& o) { return o.risky ? o.always : o.quantized; });
  add_decode(list, "quantized_ranking", [](const Outcome& o) { return o.quantized_ranking; });
  add_decode(list, "shift", [](const Outcome& o) { return o.shift; });
  add_draws(list, "noise", &Outcome::noise);
  add_draws(list, "noise_resorted", &Outcome::noise_resorted);
  list.push_back({"restored", "correction_rate", [](const Outcome& o) { return o.corrected ? 1.0 : 0.0; }});
  list.push_back({"restored", "kl_worse_share",
                  [](const Outcome& o) { return o.restored.kl > o.quantized.kl ? 1.0 : 0.0; }});
  list.push_back({"restored_always", "kl_worse_share",
                  [](const Outcome& o) { return o.always.kl > o.quantized.kl ? 1.0 : 0.0; }});
  list.push_back({"detector", "precision", [](const Outcome& o) { return o.risky ? 1.0 : 0.0; }, fires});
  list.push_back({"detector", "recall", [fires](const Outcome& o) { return fires(o) ? 1.0 : 0.0; }, is_risky});
  if (escalates(outcomes)) {
    list.push_back({"escalate", "rate", [](const Outcome& o) { return o.escalated ? 1.0 : 0.0; }});
    list.push_back({"escalate", "precision",
                    [](const Outcome& o) { return o.uncovered ? 1.0 : 0.0; }, is_escalated});
    list.push_back({"escalate", "recall", [](const Outcome& o) { return o.escalated ? 1.0 : 0.0; },
                    is_uncovered});
  }
  list.push_back({"coverage", "mean", [](const Outcome& o) { return o.coverage; }});
  list.push_back({"", "positive_rate", [](const Outcome& o) { return o.risky ? 1.0 : 0.0; }});
  list.push_back({"", "low_coverage_rate", [](const Outcome& o) { return o.covered ? 0.0 : 1.0; }});
  list.push_back({"", "uncovered_rate", [](const Outcome& o) { return o.uncovered ? 1.0 : 0.0; }});
  return list;
}

json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

std::optional<double> mean(std::span<const Outcome> outcomes, const Figure& figure) {
  double sum = 0;
  std::int64_t count = 0;
  for (const Outcome& o : outcomes) {
    if (figure.filter && !figure.filter(o)) continue;
    sum += figure.value(o);
    ++count;
  }
  if (count == 0) return std::nullopt;
  const double m = sum / static_cast<double>(count);
  return figure.exponential ? std::exp(m) : m;
}

void put(json& object, const Figure& figure, json value) {
  (figure.group.empty() ? object : object[figure.group])[figure.name] = std::move(value);
}

json finite(std::span<const double> values) {
  json list = json::array();
  for (const double value : values) list.push_back(finite(value));
  return list;
}

json to_json(const statistics::Reliability& r) {
  return {{"score", finite(r.score)}, {"frequency", finite(r.frequency)}, {"steps", r.count}};
}

/// AUC of a score for a label, and how well the score works as its probability.
void add_probability(std::span<const Outcome> outcomes, float Outcome::*score, bool Outcome::*label,
                     json& object) {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (const Outcome& o : outcomes) scores.push_back(o.*score), labels.push_back(o.*label ? 1 : 0);
  object["auc"] = finite(statistics::auc(scores, labels));
  const statistics::Reliability r = statistics::reliability(scores, labels);
  object["calibration_error"] = finite(r.error);
  object["reliability"] = to_json(r);
}

json coverage_quantiles(std::span<const Outcome> outcomes) {
  std::vector<double> values;
  for (const Outcome& o : outcomes) values.push_back(o.coverage);
  std::sort(values.begin(), values.end());
  json object = json::object();
  for (const int percent : {5, 25, 50, 75, 95}) {
    if (!values.empty()) {
      object[std::to_string(percent)] = statistics::quantile(values, percent / 100.0);
    }
  }
  return object;
}

/// Mean KL of every draw of a noise control.
json kl_of_draws(std::span<const Outcome> outcomes, Draws Outcome::*draws) {
  json list = json::array();
  for (int i = 0; i < kNoiseSeeds; ++i) {
    double sum = 0.0;
    for (const Outcome& o : outcomes) sum += (o.*draws)[i].kl;
    list.push_back(finite(sum / static_cast<double>(outcomes.size())));
  }
  return list;
}

/// What the shift changes, which should be nothing.
void add_shift_changes(std::span<const Outcome> outcomes, json& shift) {
  double largest = 0.0, changed = 0.0;
  for (const Outcome& o : outcomes) {
    largest = std::max(largest, std::fabs(o.shift.kl - o.quantized.kl));
    changed += o.shift.top1 != o.quantized.top1 ? 1.0 : 0.0;
  }
  shift["largest_kl_change"] = largest;
  shift["top1_changed"] = changed;
}

}  // namespace

json figures(std::span<const Outcome> outcomes, double tau) {
  json object = {{"steps", outcomes.size()}};
  for (const Figure& figure : all_figures(outcomes, tau)) {
    const auto value = mean(outcomes, figure);
    put(object, figure, value ? finite(*value) : json(nullptr));
  }
  add_probability(outcomes, &Outcome::risk, &Outcome::risky, object["detector"]);
  if (escalates(outcomes)) {
    add_probability(outcomes, &Outcome::escalation, &Outcome::uncovered, object["escalate"]);
  }
  add_shift_changes(outcomes, object["shift"]);
  object["noise"]["kl_by_draw"] = kl_of_draws(outcomes, &Outcome::noise);
  object["noise_resorted"]["kl_by_draw"] = kl_of_draws(outcomes, &Outcome::noise_resorted);
  object["by_coverage"] = by_coverage(outcomes);
  object["coverage"]["quantiles"] = coverage_quantiles(outcomes);
  return object;
}

void add_uncalibrated(std::span<const Outcome> outcomes, const schemas::RiskScale& calibration,
                      json& detector) {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (const Outcome& o : outcomes) {
    const double risk = std::clamp(static_cast<double>(o.risk), 1e-7, 1.0 - 1e-7);
    const double raw = (std::log(risk / (1.0 - risk)) - calibration.offset) / calibration.scale;
    scores.push_back(static_cast<float>(1.0 / (1.0 + std::exp(-raw))));
    labels.push_back(o.risky ? 1 : 0);
  }
  const statistics::Reliability r = statistics::reliability(scores, labels);
  detector["uncalibrated"] = {{"calibration_error", finite(r.error)}, {"reliability", to_json(r)}};
}

json adaptive_figures(std::span<const Outcome> outcomes, int most) {
  const auto mean_of = [&](auto value) { return finite(*mean(outcomes, {"", "", value})); };
  json size = json::array();
  std::vector<double> sizes;
  for (const Outcome& o : outcomes) sizes.push_back(o.window);
  std::sort(sizes.begin(), sizes.end());
  for (const double level : {0.05, 0.25, 0.5, 0.75, 0.95}) {
    size.push_back(finite(statistics::quantile(sizes, level)));
  }
  return {{"adaptive",
           {{"window", mean_of([](const Outcome& o) { return static_cast<double>(o.window); })},
            {"window_quantiles", std::move(size)},
            {"coverage", mean_of([](const Outcome& o) { return o.coverage; })},
            {"kl", mean_of([](const Outcome& o) { return o.restored.kl; })},
            {"kl_ceiling", mean_of([](const Outcome& o) { return o.oracle.kl; })}}},
          {"fixed",
           {{"window", most},
            {"coverage", mean_of([](const Outcome& o) { return o.coverage_fixed; })},
            {"kl", mean_of([](const Outcome& o) { return o.restored_fixed.kl; })},
            {"kl_ceiling", mean_of([](const Outcome& o) { return o.oracle_fixed.kl; })}}}};
}

json intervals(std::span<const Outcome> outcomes, const statistics::Clusters& clusters, double tau,
               std::uint64_t seed) {
  constexpr int kResamples = 400;
  constexpr double kLevels[] = {0.025, 0.975};
  json object = json::object();
  std::vector<double> values;
  for (const Figure& figure : all_figures(outcomes, tau)) {
    statistics::Clusters kept;
    kept.count = clusters.count;
    values.clear();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (figure.filter && !figure.filter(outcomes[i])) continue;
      values.push_back(figure.value(outcomes[i]));
      kept.of_step.push_back(clusters.of_step[i]);
    }
    json interval = nullptr;
    if (!values.empty()) {
      std::vector<double> ends = statistics::bootstrap_mean(values, kept, kResamples, seed, kLevels);
      if (figure.exponential) {
        for (double& end : ends) end = std::exp(end);
      }
      interval = {finite(ends[0]), finite(ends[1])};
    }
    put(object, figure, std::move(interval));
  }
  return object;
}

json by_coverage(std::span<const Outcome> outcomes) {
  constexpr int kBins = 10;
  struct Bin {
    double count = 0, kl = 0, restored = 0, ceiling = 0, drift = 0, top1 = 0, corrected = 0;
  };
  std::array<Bin, kBins> bins;
  for (const Outcome& o : outcomes) {
    Bin& bin = bins[std::clamp(static_cast<int>(o.coverage * kBins), 0, kBins - 1)];
    bin.count += 1.0;
    bin.kl += o.quantized.kl;
    bin.restored += o.restored.kl;
    bin.ceiling += o.oracle.kl;
    bin.drift += o.quantized.drift;
    bin.top1 += o.quantized.top1 ? 1.0 : 0.0;
    bin.corrected += o.corrected ? 1.0 : 0.0;
  }
  json object;
  for (int i = 0; i < kBins; ++i) {
    const Bin& bin = bins[i];
    const auto mean = [&](double sum) { return finite(sum / bin.count); };
    object["from"].push_back(static_cast<double>(i) / kBins);
    object["share"].push_back(finite(bin.count / static_cast<double>(outcomes.size())));
    object["kl"].push_back(mean(bin.kl));
    object["kl_restored"].push_back(mean(bin.restored));
    object["kl_ceiling"].push_back(mean(bin.ceiling));
    object["drift"].push_back(mean(bin.drift));
    object["top1_agreement"].push_back(mean(bin.top1));
    object["correction_rate"].push_back(mean(bin.corrected));
  }
  return object;
}

json by_step(std::span<const Outcome> outcomes, std::span<const std::int32_t> step_in_unit) {
  constexpr std::int32_t kBuckets = 16;
  std::int32_t steps = 0;
  for (const std::int32_t s : step_in_unit) steps = std::max(steps, s + 1);
  const std::int32_t width = std::max(1, (steps + kBuckets - 1) / kBuckets);
  json object = {{"first_step", json::array()}, {"kl", json::array()}, {"kl_restored", json::array()},
                 {"top1_agreement", json::array()}};
  for (std::int32_t first = 0; first < steps; first += width) {
    double kl = 0, restored = 0, top1 = 0, count = 0;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (step_in_unit[i] < first || step_in_unit[i] >= first + width) continue;
      kl += outcomes[i].quantized.kl;
      restored += outcomes[i].restored.kl;
      top1 += outcomes[i].quantized.top1 ? 1 : 0;
      count += 1;
    }
    if (count == 0) continue;
    object["first_step"].push_back(first);
    object["kl"].push_back(kl / count);
    object["kl_restored"].push_back(restored / count);
    object["top1_agreement"].push_back(top1 / count);
  }
  return object;
}

}  // namespace dgap::evaluator
