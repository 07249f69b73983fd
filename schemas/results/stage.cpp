#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "schemas/results/json_file.hpp"
#include "schemas/results/results.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> kStages = {"allocate",  "collect", "calibrate", "train",
                                                     "threshold", "export",  "evaluate",  "report"};

/// The path as the record and the key have it: a run directory can be moved.
std::string relative_to(const fs::path& file, const fs::path& directory) {
  return file.lexically_relative(directory).generic_string();
}

/// The verb that makes a file of the run directory.
std::string_view maker_of(const std::string& relative) {
  constexpr std::pair<std::string_view, std::string_view> kMakers[] = {
      {"traces", "collect"},           {"windows.json", "calibrate"},   {"detector", "train"},
      {"corrector", "train"},          {"threshold.json", "threshold"}, {"bundle", "export"},
      {"evaluation.json", "evaluate"}, {"allocation.json", "allocate"},
  };
  const std::string_view first = std::string_view(relative).substr(0, relative.find('/'));
  for (const auto& [name, verb] : kMakers) {
    if (first == name) return verb;
  }
  return "run";
}

/// Whether the output that `entry` records is there, unaltered.
bool unaltered(const ResultObject& entry, const fs::path& directory) {
  const fs::path file = directory / entry.text("path");
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return !error &&
         bytes == static_cast<std::uintmax_t>(entry.integer("bytes", 0, std::int64_t{1} << 61)) &&
         base::sha256_of_file(file) == entry.text("sha256");
}

}  // namespace

std::span<const std::string_view> stage_names() { return kStages; }

Stage::Stage(const Config& config, std::string name, const std::vector<fs::path>& inputs)
    : run_directory_(config.run_directory()), name_(std::move(name)) {
  base::Sha256 hash;
  hash.update(name_ + "\n" + to_stage_yaml(config, name_));
  for (const fs::path& input : inputs) {
    const std::string relative = relative_to(input, run_directory_);
    std::error_code unreadable;
    if (!fs::exists(input, unreadable)) {
      throw base::FailedError(input.string() + ": is missing, and " + name_ +
                              " reads it; run `dgap " + std::string(maker_of(relative)) +
                              "` first");
    }
    hash.update(base::sha256_of_file(input) + " " + relative + "\n");
  }
  key_ = hash.hex();
}

bool Stage::done() const {
  std::error_code missing;
  if (!fs::exists(record(), missing)) return false;
  try {
    const json value = read_json_file(record());
    const ResultObject root(value, record().string() + ":");
    if (root.text("stage") != name_ || root.text("key") != key_) return false;
    const std::vector<ResultObject> outputs = root.objects("outputs");
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](const ResultObject& entry) { return unaltered(entry, run_directory_); });
  } catch (const base::IoError&) {
    return false;
  }
}

void Stage::finish(const std::vector<fs::path>& outputs) const {
  json entries = json::array();
  std::error_code error;
  for (const fs::path& output : outputs) {
    const auto bytes = fs::file_size(output, error);
    if (error) throw base::IoError(output.string() + ": cannot be examined: " + error.message());
    entries.push_back({{"path", relative_to(output, run_directory_)},
                       {"bytes", bytes},
                       {"sha256", base::sha256_of_file(output)}});
  }
  fs::create_directories(record().parent_path(), error);
  if (error)
    throw base::IoError(record().parent_path().string() + ": cannot be made: " + error.message());
  write_json_file(record(),
                  {{"version", 1}, {"stage", name_}, {"key", key_}, {"outputs", entries}});
}

void verify_stage_records(const fs::path& run_directory) {
  for (const std::string_view stage : kStages) {
    const fs::path file = run_directory / "stages" / (std::string(stage) + ".json");
    std::error_code missing;
    if (!fs::exists(file, missing)) continue;
    const json value = read_json_file(file);
    const ResultObject root(value, file.string() + ":");
    for (const ResultObject& entry : root.objects("outputs")) {
      if (unaltered(entry, run_directory)) continue;
      throw base::IoError((run_directory / entry.text("path")).string() +
                          ": is missing or not as the stage left it; run `dgap " +
                          std::string(stage) + "` again");
    }
  }
}

}  // namespace dgap::schemas
