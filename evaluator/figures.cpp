#include "evaluator/figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

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

/// perplexity, kl, drift, drift_risky, top1_agreement of one kind of decode.
void add_decode(std::vector<Figure>& list, const std::string& group, std::function<Metrics(const Outcome&)> of) {
  list.push_back({group, "perplexity", [of](const Outcome& o) { return of(o).nll; }, nullptr, true});
  list.push_back({group, "kl", [of](const Outcome& o) { return of(o).kl; }});
  list.push_back({group, "drift", [of](const Outcome& o) { return of(o).drift; }});
  list.push_back({group, "drift_risky", [of](const Outcome& o) { return of(o).drift; }, is_risky});
  list.push_back({group, "top1_agreement", [of](const Outcome& o) { return of(o).top1 ? 1.0 : 0.0; }});
}

std::vector<Figure> all_figures(double tau) {
  const auto fires = [tau](const Outcome& o) { return static_cast<double>(o.risk) > tau; };
  std::vector<Figure> list;
  list.push_back({"reference", "perplexity", [](const Outcome& o) { return o.reference_nll; }, nullptr, true});
  add_decode(list, "quantized", [](const Outcome& o) { return o.quantized; });
  add_decode(list, "restored", [](const Outcome& o) { return o.restored; });
  add_decode(list, "restored_always", [](const Outcome& o) { return o.always; });
  add_decode(list, "oracle_risky", [](const Outcome& o) { return o.risky ? o.oracle : o.quantized; });
  add_decode(list, "oracle_all", [](const Outcome& o) { return o.oracle; });
  add_decode(list, "oracle_common", [](const Outcome& o) { return o.oracle_common; });
  list.push_back({"restored", "correction_rate", [](const Outcome& o) { return o.corrected ? 1.0 : 0.0; }});
  list.push_back({"restored", "kl_worse_share",
                  [](const Outcome& o) { return o.restored.kl > o.quantized.kl ? 1.0 : 0.0; }});
  list.push_back({"restored_always", "kl_worse_share",
                  [](const Outcome& o) { return o.always.kl > o.quantized.kl ? 1.0 : 0.0; }});
  list.push_back({"detector", "precision", [](const Outcome& o) { return o.risky ? 1.0 : 0.0; }, fires});
  list.push_back({"detector", "recall", [fires](const Outcome& o) { return fires(o) ? 1.0 : 0.0; }, is_risky});
  list.push_back({"coverage", "mean", [](const Outcome& o) { return o.coverage; }});
  list.push_back({"", "positive_rate", [](const Outcome& o) { return o.risky ? 1.0 : 0.0; }});
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

double detector_auc(std::span<const Outcome> outcomes) {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (const Outcome& o : outcomes) scores.push_back(o.risk), labels.push_back(o.risky ? 1 : 0);
  return statistics::auc(scores, labels);
}

json coverage_quantiles(std::span<const Outcome> outcomes) {
  std::vector<double> values;
  for (const Outcome& o : outcomes) values.push_back(o.coverage);
  std::sort(values.begin(), values.end());
  json object = json::object();
  for (const int percent : {5, 25, 50, 75, 95}) {
    if (values.empty()) continue;
    const auto index = (values.size() - 1) * static_cast<std::size_t>(percent) / 100;
    object[std::to_string(percent)] = values[index];
  }
  return object;
}

}  // namespace

json figures(std::span<const Outcome> outcomes, double tau) {
  json object = {{"steps", outcomes.size()}};
  for (const Figure& figure : all_figures(tau)) {
    const auto value = mean(outcomes, figure);
    put(object, figure, value ? finite(*value) : json(nullptr));
  }
  object["detector"]["auc"] = finite(detector_auc(outcomes));
  object["coverage"]["quantiles"] = coverage_quantiles(outcomes);
  return object;
}

json intervals(std::span<const Outcome> outcomes, const statistics::Clusters& clusters, double tau,
               std::uint64_t seed) {
  constexpr int kResamples = 400;
  constexpr double kLevels[] = {0.025, 0.975};
  json object = json::object();
  std::vector<double> values;
  for (const Figure& figure : all_figures(tau)) {
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
