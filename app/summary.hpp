#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "schemas/config/config.hpp"

namespace dgap::app {

/// The headline figures of a finished run, per precision in the configuration's order:
/// {"precisions": {P: {...}}, "bundle", "report" (where it is)}. Figures that were not taken are
/// null.
nlohmann::ordered_json summary(const schemas::Config& config);

/// The same as a table, and where the report is.
std::string summary_table(const nlohmann::ordered_json& summary);

}  // namespace dgap::app
