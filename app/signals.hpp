#pragma once

namespace dgap::app {

/// SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask for a polite stop (base/stop.hpp); a second one of them
/// kills. SIGPIPE is ignored, so that a closed terminal does not end a run.
void install_signal_handlers();

}  // namespace dgap::app
