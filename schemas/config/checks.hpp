#pragma once
#include <string_view>

#include "schemas/config/config.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {

/// The deepest node on the way to `path` that the tree has.
const YamlNode& locate(const YamlNode& root, std::string_view path);

/// What must hold between keys, and which keys are required. UsageError at the key's place in
/// `root`.
void check_config(const Config& config, const YamlNode& root);

}  // namespace dgap::schemas
