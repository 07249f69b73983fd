#include "app/dry_run.hpp"

#include <tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/decode_rates.hpp"
#include "app/machine.hpp"
#include "app/messages.hpp"
#include "app/progress.hpp"
#include "collector/collect.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Seconds {
  double prefill = 0, decode = 0;
};

/// The reference decodes once for every group of precisions.
Seconds estimate_time(const collector::Plan& plan, const DecodeRates& rates) {
  const auto precisions = static_cast<std::int64_t>(rates.decodes.size());
  const std::int64_t groups = (precisions + plan.precisions_at_once - 1) / plan.precisions_at_once;
  Seconds seconds;
  seconds.prefill = rates.prefill.seconds(plan.prefixes);
  for (const collector::Rate& rate : rates.prefills) seconds.prefill += rate.seconds(plan.prefixes);
  seconds.decode = static_cast<double>(groups) * rates.reference.seconds(plan.decode);
  for (const collector::Rate& rate : rates.decodes) seconds.decode += rate.seconds(plan.decode);
  return seconds;
}

Json time_text(const collector::Plan& plan, const Seconds& seconds) {
  const double total = seconds.prefill + seconds.decode;
  return {{"seconds", std::llround(total)},
          {"text", duration(total)},
          {"prefill_tokens_per_second",
           std::llround(static_cast<double>(plan.prefill_tokens) / seconds.prefill)},
          {"decode_rows_per_second",
           std::llround(static_cast<double>(plan.decode_rows) / seconds.decode)}};
}

/// The nearest folder that exists, at or above `path`.
fs::path existing_part(fs::path path) {
  path = fs::absolute(path);
  while (!fs::exists(path) && path.has_relative_path()) path = path.parent_path();
  return path;
}

Json need_and_have(double need, double have, const char* what) {
  if (need > have) say_warning(std::string("the collection needs more ") + what + " than there is");
  return {{"needed_bytes", std::llround(need)}, {"available_bytes", std::llround(have)}};
}

}  // namespace

Json estimate(const schemas::Config& config) {
  const int threads = config.run.threads > 0 ? std::min(config.run.threads, available_threads())
                                             : available_threads();
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
  const collector::Plan plan = collector::plan(config);
  const Seconds seconds = estimate_time(plan, measure_decode_rates(config));
  Memory have = memory();
  if (config.model.memory_budget > 0)
    have.available = std::min(have.available, config.model.memory_budget);
  return {{"run_directory", config.run_directory().string()},
          {"threads", threads},
          {"books", plan.books},
          {"skipped_books", plan.skipped_books},
          {"units", plan.units},
          {"parts", plan.parts},
          {"steps", plan.steps},
          {"prefill_tokens", plan.prefill_tokens},
          {"decode_rows", plan.decode_rows},
          {"precisions_at_once", plan.precisions_at_once},
          {"collect_time", time_text(plan, seconds)},
          {"memory",
           need_and_have(plan.peak_memory_bytes, static_cast<double>(have.available), "memory")},
          {"disk", need_and_have(plan.trace_bytes,
                                 static_cast<double>(
                                     fs::space(existing_part(config.run_directory())).available),
                                 "disk space")}};
}

}  // namespace dgap::app
