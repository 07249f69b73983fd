#pragma once
#include <filesystem>
#include <string_view>

namespace dgap::app {

/// What `inspect` and `verify` tell apart, by first bytes and names.
enum class FileKind {
  model,
  trace_part,
  trace_folder,
  bundle,
  run_directory,
  config,
  windows,
  threshold,
  evaluation,
  sensitivity,
  allocation_results
};

/// UsageError listing the kinds when `path` is none of them; IoError when it cannot be read.
FileKind file_kind(const std::filesystem::path& path);
std::string_view name_of(FileKind kind);

}  // namespace dgap::app
