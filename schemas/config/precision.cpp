#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "schemas/config/reader.hpp"

namespace dgap::schemas {
namespace {

using Json = nlohmann::json;
using Kind = YamlNode::Kind;

Json read_object(const Json& like, const YamlNode& node, const std::string& path);

/// A value of the type that `like` has.
Json read_value(const Json& like, const YamlNode& node, const std::string& path) {
  constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();
  constexpr double kRealMax = std::numeric_limits<double>::max();
  if (like.is_object()) return read_object(like, node, path);
  if (like.is_boolean()) return read_boolean(node, path);
  if (like.is_number_unsigned()) return read_unsigned(node, path);
  if (like.is_number_integer()) return read_integer(node, path, {-kIntMax, kIntMax});
  if (like.is_number()) return read_real(node, path, {-kRealMax, kRealMax});
  return read_text(node, path);
}

/// The keys that `node` has, typed as in `like`: the JSON of a whole scheme is the schema of its
/// parts.
Json read_object(const Json& like, const YamlNode& node, const std::string& path) {
  require_map(node, path);
  Json object = Json::object();
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    const auto field = like.find(key);
    if (field == like.end()) {
      std::vector<std::string_view> known;
      for (const auto& [name, value] : like.items()) known.push_back(name);
      fail_unknown_key(node, i, path, known);
    }
    object[key] = read_value(*field, node.items[i], path + "." + key);
  }
  return object;
}

/// Runs `body`, adding file and line (and key, where the message does not begin with it).
template <class Body>
auto located(const YamlNode& node, const std::string& path, const Body& body) {
  try {
    return body();
  } catch (const base::UsageError& error) {
    const std::string message = error.what();
    fail_at(node, message.starts_with(path) ? "" : path, message);
  }
}

}  // namespace

Scheme read_precision(const YamlNode& item, const std::string& path) {
  Scheme scheme;
  if (item.kind == Kind::scalar) {
    const std::string& name = read_text(item, path);
    scheme = located(item, path, [&] { return preset(name); });
  } else if (item.kind == Kind::map) {
    Json whole = to_json(Scheme{});
    whole["preset"] = "";
    const Json object = read_object(whole, item, path);
    if (!object.contains("name") && (object.size() > 1 || !object.contains("preset"))) {
      fail_at(item, path, "needs a name of its own, because it is not a preset as it is");
    }
    scheme = located(item, path, [&] { return scheme_from_json(object, path); });
  } else {
    fail_at(item, path, "expected a preset's name or a mapping, got " + item.shown());
  }
  check_name(item, path, scheme.name);
  located(item, path, [&] { validate(scheme); });
  return scheme;
}

}  // namespace dgap::schemas
