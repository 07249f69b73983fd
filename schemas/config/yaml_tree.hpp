#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dgap::schemas {

/// Nesting that a configuration may have, and the bytes that its tree may take with aliases
/// expanded.
inline constexpr int kMaxYamlDepth = 32;
inline constexpr std::size_t kMaxYamlText = std::size_t{1} << 20;
inline constexpr std::size_t kMaxYamlTree = std::size_t{1} << 24;

struct YamlKey {
  std::string text;
  int line = 0;
};

/// One YAML document as plain values: scalars are text (their type is the reader's affair), aliases
/// are expanded. `keys[i]` names `items[i]` in a map.
struct YamlNode {
  enum class Kind { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  bool quoted = false;  // a scalar in quotes or in block style: always text
  std::string text;
  std::vector<YamlKey> keys;
  std::vector<YamlNode> items;
  std::shared_ptr<const std::string> source;  // file name, or the override that it came from
  int line = 0;                               // 1-based; 0 for overrides

  const YamlNode* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
  /// "file:line", or the override.
  std::string where() const { return where(line); }
  std::string where(int at_line) const;
  /// What the node holds, for messages: `"text"`, "a list", "a mapping", "nothing".
  std::string shown() const;
};

/// `text` in quotes, shortened, control characters escaped, for messages.
std::string quoted_for_message(std::string_view text);

/// UsageError "file:line: key.path: what".
[[noreturn]] void fail_at(const YamlNode& node, std::string_view path, std::string_view what);

/// Parses one document. UsageError naming `source` and the line on: more than 1 MiB, invalid UTF-8,
/// control characters, tabs as indentation, syntax errors, several documents, nesting deeper than
/// kMaxYamlDepth, aliases that contain themselves or expand beyond kMaxYamlTree, duplicate keys,
/// keys that are not text, merge keys (`<<`), tags other than !!str.
YamlNode parse_yaml(std::string_view text, std::string_view source, bool numbered_lines = true);

/// Puts `value` at the key path (list items by index), making mappings where they lack. UsageError
/// naming the value's source.
void put_at(YamlNode& root, std::string_view path, YamlNode value);

/// Applies "key.path=value" (value in YAML; list items by index) to the tree. UsageError naming the
/// override.
void apply_override(YamlNode& root, std::string_view override_text);

}  // namespace dgap::schemas
