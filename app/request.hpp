#pragma once
#include <optional>
#include <string>
#include <vector>

namespace dgap::app {

/// What a command line asks for.
struct Request {
  std::string verb;    // a stage, run, inspect, verify, doctor or version
  std::string target;  // the configuration, or a file or folder
  std::vector<std::string> overrides;
  bool json = false;
  bool dry_run = false;
  std::optional<std::string> help;  // this text was asked for, and nothing else
};

/// UsageError naming what is wrong, and the nearest verb; FailedError for verbs that this version
/// does not have.
Request parse_command_line(int argc, const char* const* argv);

}  // namespace dgap::app
