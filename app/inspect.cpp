#include "app/inspect.hpp"

#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "app/file_kind.hpp"
#include "base/error.hpp"
#include "schemas/config/config.hpp"
#include "schemas/results/json_file.hpp"
#include "schemas/results/results.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json describe_config(const fs::path& file) {
  const schemas::Config c = schemas::read_config(file);
  Json names = Json::array();
  for (const schemas::Scheme& scheme : c.precisions) names.push_back(scheme.name);
  return {{"run_directory", c.run_directory().string()},
          {"model", c.model.path},
          {"corpus", c.corpus.path},
          {"context_lengths", c.corpus.context_lengths},
          {"decode_steps", c.corpus.decode_steps},
          {"precisions", names}};
}

Json describe_windows(const fs::path& file) {
  Json answer = Json::object();
  for (const auto& [name, w] : schemas::read_windows(file)) {
    answer["precisions"][name] = {{"window", w.window},
                                  {"capped", w.capped},
                                  {"coverage", w.coverage_mean},
                                  {"reachable", w.reachable},
                                  {"positive_rate", w.positive_rate},
                                  {"uncovered_rate", w.uncovered_rate}};
  }
  return answer;
}

Json describe_thresholds(const fs::path& file) {
  Json answer = Json::object();
  for (const auto& [name, t] : schemas::read_thresholds(file)) {
    answer["precisions"][name] = {
        {"mode", t.mode}, {"tau", t.tau}, {"policy", t.policy}, {"points", t.curve.tau.size()}};
  }
  return answer;
}

Json describe_evaluation(const fs::path& file) {
  const nlohmann::json value = schemas::read_json_file(file);
  Json answer = Json::object();
  const auto precisions = value.find("precisions");
  if (precisions == value.end() || !precisions->is_object())
    throw base::IoError(file.string() + ": precisions: is missing");
  for (const auto& [name, p] : precisions->items()) {
    answer["precisions"][name] = Json::object();
    for (const char* kind : {"quantized", "restored"}) {
      const auto part = p.find(kind);
      if (part != p.end() && part->is_object()) answer["precisions"][name][kind] = *part;
    }
  }
  return answer;
}

Json describe_run(const fs::path& folder, bool whole) {
  Json answer = describe_config(folder / "config.resolved.yaml");
  Json finished = Json::array();
  for (const std::string_view stage : schemas::stage_names()) {
    if (fs::exists(folder / "stages" / (std::string(stage) + ".json"))) finished.push_back(stage);
  }
  answer["finished"] = finished;
  if (!whole) return answer;
  schemas::verify_stage_records(folder);
  if (fs::exists(folder / "traces" / "index.json"))
    answer["traces"] = describe_traces(folder / "traces", true);
  if (fs::exists(folder / "sensitivity.json")) describe_sensitivity(folder / "sensitivity.json");
  if (fs::exists(folder / "allocation_results.json"))
    describe_allocation_results(folder / "allocation_results.json");
  if (fs::exists(folder / "windows.json")) describe_windows(folder / "windows.json");
  if (fs::exists(folder / "threshold.json")) describe_thresholds(folder / "threshold.json");
  if (fs::exists(folder / "bundle" / "manifest.json"))
    answer["bundle"] = describe_bundle(folder / "bundle", true);
  if (fs::exists(folder / "evaluation.json")) describe_evaluation(folder / "evaluation.json");
  return answer;
}

Json describe(FileKind kind, const fs::path& path, bool whole) {
  switch (kind) {
    case FileKind::model:
      return describe_model(path, whole);
    case FileKind::trace_part:
      return describe_trace_part(path, whole);
    case FileKind::trace_folder:
      return describe_traces(path, whole);
    case FileKind::bundle:
      return describe_bundle(path, whole);
    case FileKind::run_directory:
      return describe_run(path, whole);
    case FileKind::config:
      return describe_config(path);
    case FileKind::windows:
      return describe_windows(path);
    case FileKind::threshold:
      return describe_thresholds(path);
    case FileKind::evaluation:
      return describe_evaluation(path);
    case FileKind::sensitivity:
      return describe_sensitivity(path);
    case FileKind::allocation_results:
      return describe_allocation_results(path);
  }
  return {};
}

Json with_kind(const fs::path& path, bool whole) {
  const FileKind kind = file_kind(path);
  Json answer = {{"path", path.string()}, {"kind", name_of(kind)}};
  answer.update(describe(kind, path, whole));
  return answer;
}

}  // namespace

Json inspect(const fs::path& path) { return with_kind(path, false); }

Json verify(const fs::path& path) {
  Json answer = with_kind(path, true);
  answer["verified"] = true;
  return answer;
}

}  // namespace dgap::app
