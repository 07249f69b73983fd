#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.hpp"
#include "runtime/features.hpp"
#include "schemas/config/config.hpp"
#include "schemas/results/trained.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/statistics/random_trace.hpp"
#include "tests/testing/temporary_folder.hpp"

/// Run directories with random traces and hand-made networks.
namespace dgap::testing {

/// Keeps what a stage says.
struct Messages : base::Progress {
  void info(std::string_view message) override { infos.emplace_back(message); }
  void warn(std::string_view message) override { warnings.emplace_back(message); }
  std::vector<std::string> infos, warnings;
};

inline RandomTrace run_trace() {
  RandomTrace options;
  options.precisions = {"K1V1", "K2V2"};
  options.steps = 120;
  options.units = 12;
  return options;
}

inline schemas::Config config_for(const std::filesystem::path& directory) {
  schemas::Config config;
  config.run.dir = directory.string();
  config.run.name = "r";
  config.model.path = "model.gguf";
  config.corpus.path = "books";
  config.precisions = {schemas::preset("K1V1"), schemas::preset("K2V2")};
  config.window.cap = 32;
  config.window.rho_k = 0.7;
  config.labels = {0.05, 0.6};
  return config;
}

/// Writes `trace` as parts of `units_per_part` units and the index.
inline void write_traces(const schemas::Config& config, const schemas::TracePart& trace,
                         std::size_t units_per_part, bool full = false) {
  const std::filesystem::path directory = config.run_directory() / "traces";
  std::filesystem::create_directories(directory);
  std::vector<std::string> files;
  for (std::size_t first = 0; first < trace.units.size(); first += units_per_part) {
    schemas::TracePart part;
    part.header = trace.header;
    part.config_yaml = trace.config_yaml;
    part.top = trace.top;
    part.precisions = trace.precisions;
    part.columns.resize(trace.columns.size());
    for (std::size_t u = first; u < std::min(first + units_per_part, trace.units.size()); ++u) {
      schemas::TraceUnit unit = trace.units[u];
      const auto tokens = trace.tokens.begin() + unit.first_token;
      const std::int64_t row = unit.first_step, vocab = trace.header.vocab_size;
      unit.first_step = part.steps();
      unit.first_token = static_cast<std::int64_t>(part.tokens.size());
      part.tokens.insert(part.tokens.end(), tokens, tokens + unit.context + unit.steps);
      const auto append = [&](auto& to, const auto& from, std::int64_t width) {
        to.insert(to.end(), from.begin() + row * width, from.begin() + (row + unit.steps) * width);
      };
      append(part.step_position, trace.step_position, 1);
      append(part.step_target, trace.step_target, 1);
      part.step_unit.resize(part.step_unit.size() + unit.steps,
                            static_cast<std::int32_t>(part.units.size()));
      append(part.reference.logits, trace.reference.logits, vocab);
      for (std::size_t p = 0; p < trace.columns.size(); ++p) {
        append(part.columns[p].logits, trace.columns[p].logits, vocab);
      }
      part.units.push_back(unit);
    }
    statistics::recompute_columns(part, config.trace.alpha_max);
    if (!full) {
      part.reference.logits.clear();
      for (schemas::PrecisionColumns& columns : part.columns) columns.logits.clear();
    }
    files.push_back("part-" + std::to_string(files.size()) + ".h5");
    schemas::write_trace_part(directory / files.back(), part);
  }
  schemas::write_trace_index(directory, files);
}

inline void add_linear(schemas::Tensors& tensors, const std::string& prefix, int inputs,
                       const std::vector<std::pair<int, float>>& weights, float bias) {
  std::vector<float> row(inputs, 0.0f);
  for (const auto& [index, weight] : weights) row[index] = weight;
  tensors[prefix + ".mean"] = {{inputs}, std::vector<float>(inputs, 0.0f)};
  tensors[prefix + ".scale"] = {{inputs}, std::vector<float>(inputs, 1.0f)};
  tensors[prefix + ".0.weight"] = {{1, inputs}, row};
  tensors[prefix + ".0.bias"] = {{1}, {bias}};
}

/// A detector that looks at the entropy, and a corrector that scales the window's logits by 1 +
/// shrink.
inline void write_networks(const schemas::Config& config, float shrink) {
  for (const schemas::Scheme& scheme : config.precisions) {
    schemas::TrainedNetwork detector, corrector;
    detector.key = corrector.key = "test";
    for (schemas::NetworkInfo* info : {&detector.info, &corrector.info}) {
      info->architecture = "linear", info->layers = 1;
    }
    detector.info.tensors = scheme.name + ".detector";
    add_linear(detector.tensors, detector.info.tensors, runtime::kDetectorWidth, {{0, 2.0f}},
               -5.0f);
    corrector.info.inputs = {"logits"}, corrector.info.mass = true;
    corrector.info.tensors = scheme.name + ".corrector";
    add_linear(corrector.tensors, corrector.info.tensors + ".shape",
               runtime::kDetectorWidth + runtime::kCandidateWidth,
               {{runtime::kDetectorWidth, shrink}}, 0.0f);
    add_linear(corrector.tensors, corrector.info.tensors + ".mass", runtime::kDetectorWidth, {},
               -0.02f);
    schemas::write_trained(config.run_directory() / "detector", scheme.name, detector);
    schemas::write_trained(config.run_directory() / "corrector", scheme.name, corrector);
  }
}

}  // namespace dgap::testing
