#include "schemas/config/search.hpp"

#include "schemas/config/checks.hpp"
#include "schemas/config/reader.hpp"

namespace dgap::schemas {
namespace {

/// So that errors in a value name the place where it was given.
void set_place(YamlNode& node, const YamlNode& place) {
  node.source = place.source;
  node.line = place.line;
  for (YamlNode& item : node.items) set_place(item, place);
}

}  // namespace

std::vector<SearchSetting> settings_of(const YamlNode& root, const Config& config) {
  using Values = std::map<std::string, std::string>;
  std::vector<Values> combinations = {{}};
  for (const auto& [key, texts] : config.training.search) {
    std::vector<Values> longer;
    for (const Values& shorter : combinations) {
      for (const std::string& text : texts) {
        longer.push_back(shorter);
        longer.back()[key] = text;
      }
    }
    combinations = std::move(longer);
  }
  if (config.training.search.empty()) return {{{}, config}};
  std::vector<SearchSetting> settings;
  for (const Values& values : combinations) {
    YamlNode tree = root;
    for (const auto& [key, text] : values) {
      YamlNode value = parse_yaml(text, "training.search", false);
      set_place(value, locate(root, "training.search." + key));
      put_at(tree, key, std::move(value));
    }
    settings.push_back({values, read_tree(tree)});
    settings.back().config.training.search.clear();
  }
  return settings;
}

std::vector<SearchSetting> search_settings(const Config& config) {
  return settings_of(parse_yaml(to_yaml(config), "training.search"), config);
}

}  // namespace dgap::schemas
