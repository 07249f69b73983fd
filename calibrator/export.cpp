#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/version.hpp"
#include "calibrator/calibrator.hpp"
#include "calibrator/model_card.hpp"
#include "calibrator/validation_traces.hpp"
#include "engine/formats/open_weights.hpp"
#include "runtime/features.hpp"
#include "schemas/bundle/bundle.hpp"
#include "schemas/config/calibrated.hpp"
#include "schemas/results/trained.hpp"

namespace dgap::calibrator {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kBundleFiles[] = {"manifest.json", "weights.safetensors", "calibration.json",
                                        "README.md", "SHA256SUMS"};  // not the one with times

std::vector<fs::path> inputs(const schemas::Config& config) {
  const fs::path run = config.run_directory();
  std::vector<fs::path> files = {run / "traces" / "index.json", run / "windows.json",
                                 run / "threshold.json"};
  for (const schemas::Scheme& scheme : config.precisions) {
    for (const char* folder : {"detector", "corrector"}) {
      for (auto& file : schemas::trained_files(run / folder, scheme.name)) files.push_back(file);
    }
  }
  return files;
}

schemas::BaseModel base_model(const schemas::Config& config, const schemas::TraceHeader& header) {
  const auto weights = engine::open_weights(config.model.path, config.model.format);
  const engine::HyperParameters& parameters = weights->parameters();
  if (weights->sha256() != header.model_sha256) {
    throw base::FailedError("model.path = " + config.model.path +
                            " is not the model of the traces: its SHA-256 is " + weights->sha256() +
                            ", theirs is " + header.model_sha256 + "; run `dgap collect` again");
  }
  schemas::BaseModel model;
  model.name =
      parameters.name.empty() ? fs::path(config.model.path).stem().string() : parameters.name;
  model.architectures = {parameters.architecture};
  model.vocab_size = header.vocab_size;
  model.logits_width = std::max(parameters.vocab_size, header.vocab_size);
  model.hidden_size = header.hidden_size;
  model.tokenizer_sha256 = header.tokenizer_sha256;
  model.model_sha256 = header.model_sha256;
  model.license = parameters.license.empty() ? "unknown" : parameters.license;
  return model;
}

/// Moves a network's tensors into the bundle, from its own prefix to `prefix`.
schemas::NetworkInfo adopt(schemas::TrainedNetwork network, const std::string& prefix,
                           schemas::Tensors& tensors) {
  const std::string old = network.info.tensors;
  for (auto& [name, tensor] : network.tensors) {
    if (!name.starts_with(old)) {
      throw base::FailedError("a trained network holds the tensor " + name +
                              ", which is not its own (" + old + "...); run `dgap train` again");
    }
    tensors.emplace(prefix + name.substr(old.size()), std::move(tensor));
  }
  network.info.tensors = prefix;
  return network.info;
}

std::string validation_json(const schemas::WindowResult& window,
                            const schemas::ThresholdResult& threshold, std::int64_t steps) {
  const Headline h = headline(threshold);
  return json{{"steps", steps},
              {"kl", {{"before", h.kl_before}, {"after", h.kl_after}}},
              {"drift", {{"before", h.drift_before}, {"after", h.drift_after}}},
              {"top1_agreement", {{"before", h.top1_before}, {"after", h.top1_after}}},
              {"perplexity", {{"before", h.perplexity_before}, {"after", h.perplexity_after}}},
              {"correction_rate", h.correction_rate},
              {"kl_worse_share", h.kl_worse_share},
              {"uncovered_rate", window.uncovered_rate}}
      .dump();
}

template <class Result>
const Result& result_of(const std::map<std::string, Result>& results, const std::string& precision,
                        const char* file) {
  const auto found = results.find(precision);
  if (found == results.end()) {
    throw base::FailedError(std::string(file) + " has no precision '" + precision +
                            "'; run the stage that writes it again");
  }
  return found->second;
}

schemas::PrecisionEntry precision_entry(const schemas::Config& config,
                                        const schemas::Scheme& scheme,
                                        const schemas::WindowResult& window,
                                        const schemas::ThresholdResult& threshold,
                                        std::int64_t steps, schemas::Tensors& tensors) {
  schemas::PrecisionEntry entry;
  entry.scheme_json = schemas::to_json(scheme).dump();
  entry.window = window.window;
  entry.window_mass = window.window_mass();
  entry.alpha = window.alpha;
  entry.rho_k = window.rho_k;
  entry.coverage_mean = window.coverage_mean;
  entry.coverage_lower = window.coverage_lower;
  entry.coverage_confidence = window.coverage_confidence;
  entry.epsilon = config.labels.epsilon;
  entry.rho_c = config.labels.rho_c;
  entry.positive_rate = window.positive_rate;
  entry.mode = threshold.mode;
  entry.tau = threshold.tau;
  entry.threshold_policy = threshold.policy;
  const schemas::OnlineConfig& online = config.threshold.online;
  if (online.rate > 0.0) {
    entry.online = schemas::OnlineRate{online.rate, online.step, online.low, online.high};
  }
  const fs::path run = config.run_directory();
  entry.detector = adopt(schemas::read_trained(run / "detector", scheme.name),
                         scheme.name + "/detector", tensors);
  entry.corrector = adopt(schemas::read_trained(run / "corrector", scheme.name),
                          scheme.name + "/corrector", tensors);
  if (threshold.escalate && threshold.escalate->tau < 1.0) {
    entry.escalate_tau = threshold.escalate->tau;
  }
  entry.validation_json = validation_json(window, threshold, steps);
  return entry;
}

/// Counts and bits per element, from the traces themselves.
struct TraceFacts {
  ValidationBasis basis;
  std::vector<schemas::PrecisionInfo> precisions;
};

TraceFacts trace_facts(const ValidationTraces& traces) {
  TraceFacts facts;
  std::set<std::pair<std::string, std::string>> books;
  std::set<std::int32_t> contexts, units;
  traces.for_each_part(false, [&](const schemas::TracePart& part, const auto& steps) {
    if (facts.precisions.empty()) facts.precisions = part.precisions;
    units.clear();
    for (const std::int64_t step : steps) units.insert(part.step_unit[step]);
    for (const std::int32_t index : units) {
      const schemas::TraceUnit& unit = part.units[index];
      books.emplace(unit.source, unit.book);
      contexts.insert(unit.context);
    }
    facts.basis.steps += static_cast<std::int64_t>(steps.size());
    facts.basis.units += static_cast<std::int64_t>(units.size());
  });
  facts.basis.books = static_cast<std::int64_t>(books.size());
  facts.basis.contexts.assign(contexts.begin(), contexts.end());
  return facts;
}

json parsed(const fs::path& file) { return json::parse(base::read_file(file)); }

/// The curves, as their stages wrote them.
std::string calibration_json(const fs::path& run) {
  return json{{"version", 1},
              {"windows", parsed(run / "windows.json")["precisions"]},
              {"thresholds", parsed(run / "threshold.json")["precisions"]}}
             .dump(1) +
         "\n";
}

/// The one file of a bundle that differs from run to run.
std::string provenance_json(const schemas::Config& config, const schemas::TraceHeader& header) {
  char host[256] = "unknown";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json{{"time", time},
              {"host", host},
              {"producer", {{"version", base::version()}, {"commit", base::commit()}}},
              {"run_id", header.run_id},
              {"traces",
               {{"producer", header.producer},
                {"producer_commit", header.producer_commit},
                {"compute", header.compute},
                {"cpu_isa", header.cpu_isa},
                {"decode_mode", header.decode_mode},
                {"index", parsed(config.run_directory() / "traces" / "index.json")}}},
              {"config", schemas::to_yaml(config)}}
             .dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

}  // namespace

void export_bundle(const schemas::Config& config, base::Progress& progress) {
  const fs::path run = config.run_directory(), directory = run / "bundle";
  const schemas::Stage stage(config, "export", inputs(config));
  if (stage.done()) return progress.info("export: up to date");

  const ValidationTraces traces(config);
  const schemas::Windows windows = schemas::read_windows(run / "windows.json");
  const schemas::Thresholds thresholds = schemas::read_thresholds(run / "threshold.json");
  const TraceFacts facts = trace_facts(traces);
  schemas::Bundle bundle;
  bundle.base_model = base_model(config, traces.header());
  bundle.producer_version = base::version();
  bundle.producer_commit = base::commit();
  bundle.features_version = runtime::kFeaturesVersion;
  bundle.feature_names.assign(runtime::kDetectorFeatures.begin(), runtime::kDetectorFeatures.end());
  std::vector<CardEntry> card;
  progress.begin("export", static_cast<std::int64_t>(config.precisions.size()), "precisions");
  const std::vector<schemas::Scheme> schemes = schemas::recorded_schemes(config);
  for (std::size_t p = 0; p < schemes.size(); ++p) {
    const schemas::Scheme& scheme = schemes[p];
    const auto& window = result_of(windows, scheme.name, "windows.json");
    const auto& threshold = result_of(thresholds, scheme.name, "threshold.json");
    bundle.precisions.emplace(scheme.name, precision_entry(config, scheme, window, threshold,
                                                           facts.basis.steps, bundle.tensors));
    card.push_back({scheme.name, facts.precisions[p].bits_per_element_key,
                    facts.precisions[p].bits_per_element_value, &window, &threshold});
    progress.advance(1);
  }
  schemas::write_bundle(directory, bundle, calibration_json(run),
                        model_card(bundle.base_model, card, facts.basis),
                        provenance_json(config, traces.header()));
  schemas::read_bundle(directory);  // what was written is what a serving stack will accept
  progress.end();
  std::vector<fs::path> outputs;
  for (const char* file : kBundleFiles) outputs.push_back(directory / file);
  stage.finish(outputs);
}

}  // namespace dgap::calibrator
