#pragma once
#include <string>

namespace dgap::base {

/// A polite stop (SIGTERM, SIGINT, SIGUSR1, SIGUSR2) sets one flag; long loops look at it between
/// units of work, finish or drop what is open, and throw InterruptedError (exit code 75).
void request_stop() noexcept;  // async-signal-safe
bool stop_requested() noexcept;
void throw_if_stop_requested();

}  // namespace dgap::base
