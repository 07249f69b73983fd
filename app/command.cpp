#include "app/command.hpp"

#include <filesystem>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "app/answer.hpp"
#include "app/messages.hpp"
#include "app/request.hpp"
#include "app/stages.hpp"
#include "app/summary.hpp"
#include "base/error.hpp"
#include "base/version.hpp"

namespace dgap::app {
namespace {

using Answer = Actions::Answer;

Answer version() {
  return {{"name", "dgap"}, {"version", base::version()}, {"commit", base::commit()}};
}

Answer answer(const Request& request, const Actions& actions) {
  if (request.verb == "version") return version();
  if (request.verb == "inspect") return actions.inspect(request.target);
  if (request.verb == "verify") return actions.verify(request.target);
  if (request.verb == "doctor")
    return actions.doctor(request.target.empty() ? "." : request.target);
  return run_stages(request, actions);
}

void print(const Request& request, const Answer& answer, std::ostream& out) {
  if (request.json) {
    out << answer.dump(2, ' ', false, Answer::error_handler_t::replace) << "\n";
  } else if (request.verb == "version") {
    out << "dgap " << base::version() << " (" << base::commit() << ")\n";
  } else if (answer.contains("precisions") && answer.contains("stages")) {
    out << summary_table(answer);
  } else {
    out << as_text(answer);
  }
  out.flush();
  if (!out) throw base::IoError("standard output cannot be written");
}

/// Whether the words ask for JSON, also where the command line does not parse.
bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

int fail(base::ExitCode code, const std::string& message, bool json, std::ostream& out) {
  say_error(message);
  if (json) {
    const Answer error = {{"error", {{"code", static_cast<int>(code)}, {"message", message}}}};
    out << error.dump(2, ' ', false, Answer::error_handler_t::replace) << std::endl;
  }
  return static_cast<int>(code);
}

}  // namespace

int run_command(int argc, const char* const* argv, const Actions& actions, std::ostream& out) {
  const bool json = wants_json(argc, argv);
  try {
    const Request request = parse_command_line(argc, argv);
    if (request.help) {
      out << *request.help << std::flush;
      return 0;
    }
    print(request, answer(request, actions), out);
    return 0;
  } catch (const base::Error& error) {
    return fail(error.code(), error.what(), json, out);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(base::ExitCode::io, error.what(), json, out);
  } catch (const std::bad_alloc&) {
    return fail(base::ExitCode::failed,
                "out of memory; fewer threads (run.threads), shorter contexts or a smaller "
                "decode.block need less",
                json, out);
  } catch (const std::exception& error) {
    return fail(base::ExitCode::failed,
                std::string("unexpected error, please report it: ") + error.what(), json, out);
  }
}

}  // namespace dgap::app
