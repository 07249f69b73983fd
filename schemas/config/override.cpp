#include <charconv>

#include "base/error.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {
namespace {

using Kind = YamlNode::Kind;

using Source = std::shared_ptr<const std::string>;

/// The child that `step` names, made where a mapping lacks it.
YamlNode& descend(YamlNode& node, std::string_view step, std::string_view path,
                  const Source& source) {
  const auto fail = [&](const std::string& what) -> base::UsageError {
    return base::UsageError(*source + ": " + std::string(path) + ": " + what);
  };
  if (node.kind == Kind::list) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
    if (error != std::errc() || end != step.data() + step.size()) {
      throw fail("expected the index of a list item, got " + quoted_for_message(step));
    }
    if (index >= node.items.size()) {
      throw fail("the list has " + std::to_string(node.items.size()) +
                 " items; the first is number 0");
    }
    return node.items[index];
  }
  if (node.kind == Kind::nothing) node.kind = Kind::map;
  if (node.kind != Kind::map) throw fail("is inside " + node.shown() + ", which has no keys");
  if (YamlNode* child = node.find(step)) return *child;
  node.keys.push_back({std::string(step), 0});
  YamlNode& made = node.items.emplace_back();
  made.source = source;
  return made;
}

/// A precision given as a preset's name becomes the object that means the same, so that its parts
/// can be overridden.
void expand_preset(YamlNode& item) {
  YamlNode object;
  object.kind = Kind::map;
  object.source = item.source;
  object.line = item.line;
  object.keys = {{"name", item.line}, {"preset", item.line}};
  object.items = {item, item};
  item = std::move(object);
}

}  // namespace

void put_at(YamlNode& root, std::string_view path, YamlNode value) {
  const Source source = value.source;
  YamlNode* node = &root;
  int depth = 0;
  for (std::size_t begin = 0; begin <= path.size(); ++depth) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view step = path.substr(begin, end - begin);
    if (step.empty()) throw base::UsageError(*source + ": the key path has an empty part");
    if (depth == kMaxYamlDepth) throw base::UsageError(*source + ": the key path is too deep");
    if (depth == 2 && node->kind == Kind::scalar && path.substr(0, 11) == "precisions.")
      expand_preset(*node);
    node = &descend(*node, step, path.substr(0, end), source);
    begin = end + 1;
  }
  *node = std::move(value);
}

void apply_override(YamlNode& root, std::string_view override_text) {
  const std::string source = "--set " + std::string(override_text);
  const std::size_t equals = override_text.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    throw base::UsageError(source + ": expected key.path=value");
  }
  YamlNode value = parse_yaml(override_text.substr(equals + 1), source, false);
  if (value.source == nullptr) value.source = std::make_shared<const std::string>(source);
  put_at(root, override_text.substr(0, equals), std::move(value));
}

}  // namespace dgap::schemas
