#include "app/request.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::app {
namespace {

struct Verb {
  const char* name;
  const char* meaning;
};

constexpr std::array kStageVerbs = {
    Verb{"allocate", "Bits of every layer, head and tensor for a budget: allocation.json"},
    Verb{"collect", "Decode the corpus with exact and quantised caches, side by side: traces/"},
    Verb{"calibrate", "Recovery windows and labels: windows.json"},
    Verb{"train", "Detector and corrector of every precision: detector/, corrector/"},
    Verb{"threshold", "Thresholds of the detector: threshold.json"},
    Verb{"export", "Assemble what a serving stack loads: bundle/"},
    Verb{"evaluate", "Figures on held-out books, and retrieval: evaluation.json"},
    Verb{"report", "One page to read: report.html"},
    Verb{"run", "All of these in order, resuming where the run directory stands"},
};
constexpr std::array kFileVerbs = {
    Verb{"inspect", "Summarise a model, trace, bundle, run directory, configuration or result"},
    Verb{"verify", "Check every byte of the same, and say what is wrong"},
};
constexpr std::array kVerbsToCome = {
    Verb{"train-adapters", "Low-rank adapters (not built in this version)"},
    Verb{"sweep", "Many runs (not built in this version)"},
};

constexpr const char* kFooter =
    "Results go to standard output, messages to standard error. Exit codes: 0 done, 1 failed,\n"
    "2 bad configuration or usage, 69 device unavailable, 74 input/output, 75 stopped by a signal\n"
    "(the same command resumes).";

/// The command line's grammar; filling `request` is its effect.
class Grammar {
 public:
  explicit Grammar(Request& request) : request_(request) {
    app_.name("dgap");
    app_.footer(kFooter);
    app_.add_flag("--version", version_, "Version and commit of this build");
    app_.add_flag("--json", request_.json, "One JSON object on standard output");
    app_.require_subcommand(0, 1);
    for (const Verb& verb : kStageVerbs) add_stage_verb(verb);
    for (const Verb& verb : kFileVerbs) {
      add(verb)->add_option("PATH", request_.target, "File or folder")->required();
    }
    CLI::App* doctor = add(
        {"doctor", "What this machine offers: instruction sets, memory, threads, file locking"});
    doctor->add_option("--path", request_.target, "Folder whose file system is tested")
        ->default_str(".");
    for (const Verb& verb : kVerbsToCome) add(verb)->allow_extras();
  }

  void parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      request_.help = app_.help();
      return;
    } catch (const CLI::ParseError& error) {
      throw base::UsageError(std::string(error.what()) + "; see dgap --help");
    }
    const std::vector<CLI::App*> chosen = app_.get_subcommands();
    if (!chosen.empty()) {
      request_.verb = chosen.front()->get_name();
    } else if (version_) {
      request_.verb = "version";
    } else {
      throw base::UsageError("a verb is missing; see dgap --help");
    }
  }

 private:
  CLI::App* add(const Verb& verb) {
    CLI::App* sub = app_.add_subcommand(verb.name, verb.meaning);
    sub->add_flag("--json", request_.json, "One JSON object on standard output");
    return sub;
  }

  void add_stage_verb(const Verb& verb) {
    CLI::App* sub = add(verb);
    sub->add_option("CONFIG", request_.target, "Configuration (YAML)")->required();
    sub->add_option("--set", request_.overrides,
                    "Override one value of the configuration; repeatable")
        ->allow_extra_args(false)
        ->type_name("KEY.PATH=VALUE");
    sub->add_flag("--dry-run", request_.dry_run,
                  "Check the configuration and estimate time, memory and disk");
  }

  Request& request_;
  CLI::App app_{
      "Measures what a low-bit key/value cache does to a language model's next-token distribution, "
      "and "
      "builds the bundle that repairs it."};
  bool version_ = false;
};

/// The first word must be a verb: the parser's own message would not say which ones there are.
void check_verb(int argc, const char* const* argv) {
  std::vector<std::string_view> verbs;
  for (const Verb& verb : kStageVerbs) verbs.emplace_back(verb.name);
  for (const Verb& verb : kFileVerbs) verbs.emplace_back(verb.name);
  verbs.emplace_back("doctor");
  std::vector<std::string_view> all = verbs;
  for (const Verb& verb : kVerbsToCome) all.emplace_back(verb.name);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with('-')) continue;
    if (std::find(all.begin(), all.end(), word) != all.end()) return;
    const std::string_view near = base::nearest(word, all);
    throw base::UsageError("unknown verb '" + std::string(word) + "'; " +
                           (near.empty() ? "verbs are " + base::join(verbs)
                                         : "did you mean " + std::string(near) + "?"));
  }
}

}  // namespace

Request parse_command_line(int argc, const char* const* argv) {
  check_verb(argc, argv);
  Request request;
  Grammar(request).parse(argc, argv);
  const bool to_come = std::any_of(kVerbsToCome.begin(), kVerbsToCome.end(),
                                   [&](const Verb& verb) { return request.verb == verb.name; });
  if (to_come && !request.help)
    throw base::FailedError(request.verb + " is not built in this version");
  return request;
}

}  // namespace dgap::app
