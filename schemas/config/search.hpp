#pragma once
#include <vector>

#include "schemas/config/config.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {

/// search_settings() of `config`, which was read from `root`. UsageError at the place of a value
/// that its key does not take, or that does not go with others.
std::vector<SearchSetting> settings_of(const YamlNode& root, const Config& config);

}  // namespace dgap::schemas
