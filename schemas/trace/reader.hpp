#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/trace/trace.hpp"

namespace dgap::schemas::trace {

/// What tells parts apart without reading their columns. Private to schemas/trace/.
struct PartSummary {
  TraceHeader header;
  std::vector<std::string> precisions;
  std::vector<std::string> schemes;  // JSON
  std::vector<std::string> unit_splits, unit_sources, unit_books;
  std::int64_t steps = 0;
};
PartSummary read_summary(const std::filesystem::path& path);

}  // namespace dgap::schemas::trace
