#include "app/file_kind.hpp"

#include <fstream>
#include <string>

#include "base/error.hpp"

namespace dgap::app {
namespace {

namespace fs = std::filesystem;

FileKind folder_kind(const fs::path& path) {
  if (fs::exists(path / "manifest.json")) return FileKind::bundle;
  if (fs::exists(path / "config.resolved.yaml")) return FileKind::run_directory;
  if (fs::exists(path / "index.json")) return FileKind::trace_folder;
  if (fs::exists(path / "config.json")) return FileKind::model;
  throw base::UsageError(
      path.string() +
      ": is neither a bundle (manifest.json), a run directory (config.resolved.yaml), "
      "a finished trace folder (index.json) nor a model (config.json)");
}

}  // namespace

FileKind file_kind(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw base::IoError(path.string() + ": there is no such file or folder");
  if (fs::is_directory(status)) return folder_kind(path);
  if (!fs::is_regular_file(status))
    throw base::UsageError(path.string() + ": is neither a file nor a folder");

  std::ifstream in(path, std::ios::binary);
  std::string head(8, '\0');
  in.read(head.data(), 8);
  if (!in && !in.eof()) throw base::IoError(path.string() + ": cannot be read");
  if (head.starts_with("GGUF")) return FileKind::model;
  if (head == "\x89HDF\r\n\x1a\n") return FileKind::trace_part;
  const std::string extension = path.extension().string(), name = path.filename().string();
  if (extension == ".yaml" || extension == ".yml") return FileKind::config;
  if (name == "windows.json") return FileKind::windows;
  if (name == "threshold.json") return FileKind::threshold;
  if (name == "evaluation.json") return FileKind::evaluation;
  if (name == "sensitivity.json") return FileKind::sensitivity;
  if (name == "allocation_results.json") return FileKind::allocation_results;
  throw base::UsageError(
      path.string() +
      ": is no GGUF model, HDF5 trace, configuration (.yaml), windows.json, threshold.json, "
      "evaluation.json, sensitivity.json or allocation_results.json");
}

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::model:
      return "model";
    case FileKind::trace_part:
      return "trace part";
    case FileKind::trace_folder:
      return "traces of a run";
    case FileKind::bundle:
      return "bundle";
    case FileKind::run_directory:
      return "run directory";
    case FileKind::config:
      return "configuration";
    case FileKind::windows:
      return "windows";
    case FileKind::threshold:
      return "thresholds";
    case FileKind::evaluation:
      return "evaluation";
    case FileKind::sensitivity:
      return "sensitivity";
    case FileKind::allocation_results:
      return "allocation";
  }
  return "";
}

}  // namespace dgap::app
