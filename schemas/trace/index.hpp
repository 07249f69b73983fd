#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dgap::schemas::trace {

inline constexpr const char* kIndexFile = "index.json";
inline constexpr const char* kIndexFormat = "dgap-trace-index";
inline constexpr int kIndexVersion = 1;

/// One part in traces/index.json. Private to schemas/trace/.
struct IndexEntry {
  std::string file;
  std::int64_t steps = 0;
  std::string sha256;
};

/// At least one entry; names are plain. IoError on a missing or damaged index.
std::vector<IndexEntry> read_index(const std::filesystem::path& directory);

}  // namespace dgap::schemas::trace
