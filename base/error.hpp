#pragma once
#include <stdexcept>
#include <string>

namespace dgap::base {

/// Exit codes of the `dgap` command (docs/exit-codes.md).
enum class ExitCode : int {
  done = 0,
  failed = 1,       // ran and failed, or the result would have been wrong
  usage = 2,        // bad configuration or command line, found before any model opens
  unavailable = 69,  // a device or an instruction set that was asked for is missing
  io = 74,          // a file could not be read or written, or its contents are damaged
  interrupted = 75  // stopped by a signal; the same command resumes
};

/// Every error that a user can cause. The message names file, key, value and remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct FailedError : Error {
  explicit FailedError(const std::string& m) : Error(ExitCode::failed, m) {}
};
struct UsageError : Error {
  explicit UsageError(const std::string& m) : Error(ExitCode::usage, m) {}
};
struct UnavailableError : Error {
  explicit UnavailableError(const std::string& m) : Error(ExitCode::unavailable, m) {}
};
/// A file that cannot be read or written, or whose contents are not what its format promises.
struct IoError : Error {
  explicit IoError(const std::string& m) : Error(ExitCode::io, m) {}
};
struct InterruptedError : Error {
  explicit InterruptedError(const std::string& m) : Error(ExitCode::interrupted, m) {}
};

/// "path: what: No such file or directory", from errno.
[[noreturn]] void throw_errno(const std::string& path, const std::string& what);

}  // namespace dgap::base
