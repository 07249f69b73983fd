#include "schemas/config/config.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "schemas/config/checks.hpp"
#include "schemas/config/fields.hpp"
#include "schemas/config/reader.hpp"
#include "schemas/config/search.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {

Config read_tree(const YamlNode& root) {
  Config config;
  ConfigReader reader(root);
  describe_config(reader, config);
  reader.finish();
  check_config(config, root);
  return config;
}

Config parse_config(std::string_view text, std::string_view file_name,
                    const std::vector<std::string>& overrides) {
  YamlNode root = parse_yaml(text, file_name);
  if (root.kind == YamlNode::Kind::nothing) {
    root.kind = YamlNode::Kind::map;  // an empty file lacks its required keys, and is told so
  }
  for (const std::string& override_text : overrides) apply_override(root, override_text);
  const Config config = read_tree(root);
  settings_of(root, config);  // for what it refuses
  return config;
}

Config read_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = base::read_file(file, kMaxYamlText);
  } catch (const base::IoError& error) {
    throw base::UsageError(
        error.what());  // a configuration that cannot be read is a matter of usage
  }
  return parse_config(text, file.string(), overrides);
}

}  // namespace dgap::schemas
