#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/command.hpp"
#include "app/request.hpp"

namespace dgap::app {

/// Runs the stage that the request names (all of them for `run`), in the locked run directory,
/// under run.threads; or estimates it (--dry-run).
Actions::Answer run_stages(const Request& request, const Actions& actions);

}  // namespace dgap::app
