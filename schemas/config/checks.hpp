#pragma once
#include <string>

#include "schemas/config/config.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {

/// What must hold between keys, and which keys are required. UsageError at the key's place in
/// `root`.
void check_config(const Config& config, const YamlNode& root);

}  // namespace dgap::schemas
