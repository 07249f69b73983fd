#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "schemas/config/config.hpp"

namespace dgap::app {

/// What the command can do. main.cpp fills in the real things; tests give their own. Answers are
/// JSON objects, shown as text without --json.
struct Actions {
  using Answer = nlohmann::ordered_json;
  struct Stage {
    std::string_view verb;
    std::function<void(const schemas::Config&, base::Progress&)> run;
  };

  std::vector<Stage> stages;                               // in their order
  std::function<Answer(const schemas::Config&)> estimate;  // --dry-run
  std::function<Answer(const std::filesystem::path&)> inspect, verify, doctor;
};

/// The whole command: parses, acts, prints the answer on `out` and messages on standard error, and
/// turns every error into an exit code (docs/exit-codes.md).
int run_command(int argc, const char* const* argv, const Actions& actions, std::ostream& out);

}  // namespace dgap::app
