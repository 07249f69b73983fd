#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "evaluator/evaluator.hpp"
#include "evaluator/figures.hpp"
#include "evaluator/online.hpp"
#include "evaluator/outcomes.hpp"
#include "evaluator/retrieval.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/config/calibrated.hpp"
#include "schemas/results/results.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/resampling.hpp"

namespace dgap::evaluator {
namespace {

using nlohmann::json;

/// Rows of `outcomes` whose unit has the given context length.
struct Subset {
  std::vector<Outcome> outcomes;
  statistics::Clusters clusters;
};
Subset of_context(const schemas::TracePart& trace, std::span<const Outcome> outcomes,
                  const statistics::Clusters& clusters, std::int32_t context) {
  Subset subset;
  subset.clusters.count = clusters.count;
  subset.clusters.approximate = clusters.approximate;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (trace.units[static_cast<std::size_t>(trace.step_unit[i])].context != context) continue;
    subset.outcomes.push_back(outcomes[i]);
    subset.clusters.of_step.push_back(clusters.of_step[i]);
  }
  return subset;
}

std::vector<std::int32_t> steps_in_unit(const schemas::TracePart& trace) {
  std::vector<std::int32_t> steps(static_cast<std::size_t>(trace.steps()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schemas::TraceUnit& unit = trace.units[static_cast<std::size_t>(trace.step_unit[i])];
    steps[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) - unit.first_step);
  }
  return steps;
}

/// Figures of one precision; adds to `evaluation` under precisions, intervals and by_length.
void evaluate_precision(const schemas::Config& config, const schemas::TraceSet& traces,
                        const schemas::Bundle& bundle, const std::string& name, json& evaluation) {
  schemas::TraceSelection selection;
  selection.precisions = {name};
  selection.hidden = config.corrector.takes("hidden");
  const schemas::TracePart trace = traces.read_split(config.corpus.splits.test, selection);
  if (trace.steps() == 0) {
    throw base::FailedError("the traces hold no steps of the split '" + config.corpus.splits.test +
                            "': evaluation needs held-out books; check corpus.splits.test and sites_per_book");
  }
  const auto entry = bundle.precisions.find(name);
  if (entry == bundle.precisions.end()) {
    throw base::FailedError("the bundle has no precision '" + name + "'; run `dgap export` again");
  }
  const std::vector<Outcome> all = outcomes(trace, 0, entry->second, bundle.tensors, config.run.seed);
  const statistics::Clusters clusters = statistics::clusters(trace);
  const double tau = entry->second.tau;
  json figure = figures(all, tau);
  if (const auto& calibration = entry->second.detector.calibration) {
    add_uncalibrated(all, *calibration, figure["detector"]);
  }
  if (const auto& online = entry->second.online; online && entry->second.mode == "threshold") {
    figure["online"] = online_figures(trace, all, entry->second.tau, *online);
  }
  if (entry->second.window_mass < 1.0) {
    figure["adaptive_window"] = adaptive_figures(all, entry->second.window);
  }
  const schemas::PrecisionInfo& info = trace.precisions.front();
  figure["bits_per_element"] = {{"key", info.bits_per_element_key},
                                {"value", info.bits_per_element_value},
                                {"total_key", info.total_bits_per_element_key},
                                {"total_value", info.total_bits_per_element_value}};
  figure["oracle_common"]["window"] = common_window(trace);
  figure["by_step"] = by_step(all, steps_in_unit(trace));
  evaluation["precisions"][name] = std::move(figure);
  evaluation["intervals"]["precisions"][name] = intervals(all, clusters, tau, config.run.seed);
  evaluation["intervals"]["clusters"] = clusters.approximate
                                            ? "sites (fewer than 20 books: approximate)"
                                            : "books";
  for (const int context : config.corpus.context_lengths) {
    const Subset subset = of_context(trace, all, clusters, context);
    if (!subset.outcomes.empty()) {
      evaluation["by_length"][std::to_string(context)][name] = figures(subset.outcomes, tau);
    }
  }
}

json to_json(const RetrievalScore& score) {
  return {{"exact", score.exact}, {"token", score.token}};
}

json to_json(const TaskResult& result) {
  json object = {{"cases", result.cases},
                 {"context", result.context},
                 {"reference", to_json(result.reference)}};
  for (const auto& [name, p] : result.precisions) {
    object["precisions"][name] = {{"quantized", to_json(p.quantized)},
                                  {"restored", to_json(p.restored)},
                                  {"oracle", to_json(p.oracle)}};
  }
  return object;
}

RetrievalResult run_retrieval(const schemas::Config& config, const schemas::TraceSet& traces,
                              base::Progress& progress) {
  schemas::TraceSelection text_only;
  text_only.precisions = {config.precisions.front().name};
  text_only.reference_candidates = false;
  const schemas::TracePart text = traces.read_split(config.corpus.splits.test, text_only);
  const auto tokenizer = engine::open_tokenizer(config.model.path, config.model.format);
  const auto cases = retrieval_cases(text, *tokenizer, config.evaluate.retrieval,
                                     config.corpus.chat_template, config.run.seed);
  engine::DecoderOptions options;
  options.compute = config.model.compute;
  const auto decoder =
      engine::open_decoder(config.model.path, config.model.format, config.model.device, options);
  return retrieval(*decoder, schemas::calibrated_schemes(config),
                   (config.run_directory() / "bundle").string(), cases, progress);
}

}  // namespace

void evaluate(const schemas::Config& config, base::Progress& progress) {
  const auto directory = config.run_directory();
  const schemas::Stage stage(config, "evaluate",
                             {directory / "traces" / "index.json", directory / "bundle" / "manifest.json"});
  if (stage.done()) return progress.info("evaluate: up to date");
  const schemas::TraceSet traces(directory / "traces");
  const schemas::Bundle bundle = schemas::read_bundle(directory / "bundle");

  json evaluation = {{"version", 1},
                     {"model", {{"name", bundle.base_model.name}, {"sha256", bundle.base_model.model_sha256}}},
                     {"seeds", json::array({config.run.seed})},
                     {"tasks", json::object()}};
  progress.begin("evaluate", static_cast<std::int64_t>(config.precisions.size()), "precisions");
  for (const schemas::Scheme& scheme : config.precisions) {
    evaluate_precision(config, traces, bundle, scheme.name, evaluation);
    progress.advance(1);
  }
  progress.end();
  if (config.evaluate.retrieval.cases > 0) {
    for (const auto& [task, result] : run_retrieval(config, traces, progress))
      evaluation["tasks"][task] = to_json(result);
  }
  base::write_file_atomically(directory / "evaluation.json", evaluation.dump(2) + "\n");
  stage.finish({directory / "evaluation.json"});
}

}  // namespace dgap::evaluator
