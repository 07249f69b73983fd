#include "app/signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/stop.hpp"

namespace dgap::app {
namespace {

/// Async-signal-safe.
void on_signal(int signal_number) {
  if (base::stop_requested()) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
    return;
  }
  base::request_stop();
  constexpr std::string_view kMessage =
      "\ndgap: stopping as soon as the run can be resumed; a second signal kills\n";
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  errno = saved;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal_number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2})
    sigaction(signal_number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace dgap::app
