#pragma once
#include <filesystem>

#include "base/progress.hpp"

namespace dgap::collector {

/// Holds a run's traces for one process: an advisory lock on `<traces>/.lock`, which goes with the
/// process however it ends.
class RunClaim {
 public:
  /// FailedError naming the holder when another process has it. Where the file system has no locks
  /// it warns, and parts are protected by their exclusive creation alone.
  RunClaim(const std::filesystem::path& traces, base::Progress& progress);
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

  /// Whether nobody else can be writing here.
  bool exclusive() const { return exclusive_; }

 private:
  int fd_ = -1;
  bool exclusive_ = false;
};

}  // namespace dgap::collector
