#pragma once
#include <filesystem>

namespace dgap::collector {

/// Exclusive right to write into a traces folder, for the life of the object: an advisory lock on
/// <folder>/.claim, which the system drops when the process ends, however it ends. FailedError when
/// another process holds it.
class Claim {
 public:
  explicit Claim(const std::filesystem::path& folder);
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  int descriptor_;
};

}  // namespace dgap::collector
