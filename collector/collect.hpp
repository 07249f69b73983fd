#pragma once
#include "base/progress.hpp"
#include "collector/work.hpp"
#include "schemas/config/config.hpp"

namespace dgap::collector {

/// What a collection will do, known before any model decodes: for --dry-run and for progress.
struct Plan {
  std::int64_t books = 0, skipped_books = 0, units = 0, parts = 0, steps = 0;
  std::int64_t prefill_tokens = 0, decode_rows = 0;  // of all prefills and of all precisions
  Work prefixes, decode;                             // of one prefill of everything, of one decode
  std::int64_t precisions_at_once = 0;               // all, or what model.memory_budget leaves
  double trace_bytes = 0, peak_memory_bytes = 0;
};
Plan plan(const schemas::Config& config);

/// Books -> sites -> twin decode -> traces/part-NNNNN.h5 and traces/index.json in the run
/// directory. Resumes: finished parts are kept, partial ones redone. Same bytes for any thread
/// count.
void collect(const schemas::Config& config, base::Progress& progress);

}  // namespace dgap::collector
