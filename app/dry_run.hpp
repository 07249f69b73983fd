#pragma once
#include <nlohmann/json_fwd.hpp>

#include "schemas/config/config.hpp"

namespace dgap::app {

/// What a collection would take: the plan's counts, memory and disk against what the machine has,
/// and time from a short decode of the configuration's own model and schemes.
nlohmann::ordered_json estimate(const schemas::Config& config);

}  // namespace dgap::app
