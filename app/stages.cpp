#include "app/stages.hpp"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/machine.hpp"
#include "app/messages.hpp"
#include "app/progress.hpp"
#include "app/run_directory.hpp"
#include "app/summary.hpp"
#include "base/error.hpp"
#include "base/stop.hpp"
#include "base/version.hpp"
#include "schemas/results/allocations.hpp"

namespace dgap::app {
namespace {

using Answer = Actions::Answer;

int worker_threads(const schemas::Config& config) {
  const int available = available_threads();
  if (config.run.threads > available) {
    say_warning(fmt::format("run.threads is {}, but the process may use {}", config.run.threads,
                            available));
  }
  return config.run.threads == 0 ? available : std::min(config.run.threads, available);
}

/// What a stage leaves, relative to the run directory.
const char* product_of(std::string_view verb) {
  constexpr std::pair<std::string_view, const char*> kProducts[] = {
      {"allocate", "allocation.json"}, {"collect", "traces"},
      {"calibrate", "windows.json"},   {"train", "detector"},
      {"threshold", "threshold.json"}, {"export", "bundle"},
      {"evaluate", "evaluation.json"}, {"report", "report.html"},
  };
  for (const auto& [name, product] : kProducts) {
    if (name == verb) return product;
  }
  return "";
}

/// Runs one stage, with its beginning, end and error in the log. Returns seconds.
double run_stage(const Actions::Stage& stage, const schemas::Config& config,
                 ConsoleProgress& progress, EventLog& log) {
  base::throw_if_stop_requested();
  log.write("start", stage.verb, fmt::format("dgap {} ({})", base::version(), base::commit()));
  const auto start = std::chrono::steady_clock::now();
  try {
    stage.run(config, progress);
  } catch (const std::exception& error) {
    log.write("error", stage.verb, error.what());
    throw;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log.write("done", stage.verb, fmt::format("{:.1f} s", seconds));
  return seconds;
}

}  // namespace

Answer run_stages(const Request& request, const Actions& actions) {
  const schemas::Config config = schemas::read_config(request.target, request.overrides);
  if (request.dry_run) return actions.estimate(config);

  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(worker_threads(config)));
  const RunDirectory directory(config);
  EventLog log(directory.path() / "log.jsonl");
  ConsoleProgress progress(&log, ::isatty(STDERR_FILENO) != 0);

  const bool all = request.verb == "run";
  Answer answer = {{"verb", request.verb}, {"run_directory", directory.path().string()}};
  schemas::Config allocated = config;  // what the stages after `allocate` work under
  if (request.verb == "allocate" && !config.allocation.wanted())
    throw base::UsageError(request.target + ": allocation.base names no precision to allocate");
  for (const Actions::Stage& stage : actions.stages) {
    const bool allocates = stage.verb == "allocate";
    if (allocates && !config.allocation.wanted()) continue;
    if (!all && stage.verb != request.verb) continue;
    if (!allocates && allocated.allocation.wanted()) allocated = schemas::with_allocation(config);
    const double seconds = run_stage(stage, allocates ? config : allocated, progress, log);
    answer["stages"][std::string(stage.verb)] = {
        {"seconds", std::round(seconds * 10) / 10},
        {"path", (directory.path() / product_of(stage.verb)).string()}};
  }
  if (all || request.verb == "evaluate" || request.verb == "report")
    answer.update(summary(allocated));
  return answer;
}

}  // namespace dgap::app
