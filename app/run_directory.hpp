#pragma once
#include <filesystem>

#include "schemas/config/config.hpp"

namespace dgap::app {

/// A run directory that this process works in, alone: made where it is missing, locked for the
/// object's life, with config.resolved.yaml written. FailedError when another process works in it;
/// where the file system has no locks, a warning is all there is.
class RunDirectory {
 public:
  explicit RunDirectory(const schemas::Config& config);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace dgap::app
