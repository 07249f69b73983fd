#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "schemas/config/reader.hpp"
#include "schemas/scheme/allocation.hpp"

namespace dgap::schemas {
namespace {

using Json = nlohmann::json;
using Kind = YamlNode::Kind;

Json read_object(const Json& like, const YamlNode& node, const std::string& path);
Json read_list(const Json& like, const YamlNode& node, const std::string& path);

/// A value of the type that `like` has.
Json read_value(const Json& like, const YamlNode& node, const std::string& path) {
  constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();
  constexpr double kRealMax = std::numeric_limits<double>::max();
  if (like.is_object()) return read_object(like, node, path);
  if (like.is_array()) return read_list(like, node, path);
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

/// A list of what `like` has one of.
Json read_list(const Json& like, const YamlNode& node, const std::string& path) {
  if (node.kind != Kind::list) fail_at(node, path, "expected a list, got " + node.shown());
  Json list = Json::array();
  for (const YamlNode& item : node.items)
    list.push_back(read_value(like.front(), item, path + "." + std::to_string(list.size())));
  return list;
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

Json precision_keys() {
  TensorScheme tensor;  // with every key that is left out where it is the default
  tensor.rotation = RotationKind::haar, tensor.sketch = SketchKind::orthonormal;
  tensor.levels = {0.5f}, tensor.scale = 0.5f, tensor.norm_correction = true;
  tensor.outlier_bits = tensor.iterations = 1;
  tensor.outliers = 0.01, tensor.q_norm = tensor.layer_scale = true;
  Scheme scheme;
  scheme.key = scheme.value = tensor;
  scheme.overrides.push_back({{0}, {0}, tensor, tensor});
  scheme.model_layers = scheme.model_kv_heads = scheme.boundary_layers = 1;
  scheme.calibration = scheme.calibration_sha256 = "text";
  Json keys = to_json(scheme);
  keys["preset"] = keys["allocation"] = "";
  return keys;
}

Scheme read_precision(const YamlNode& item, const std::string& path) {
  Scheme scheme;
  if (item.kind == Kind::scalar) {
    const std::string& name = read_text(item, path);
    scheme = located(item, path, [&] { return preset(name); });
  } else if (item.kind == Kind::map) {
    Json object = read_object(precision_keys(), item, path);
    if (!object.contains("name") && (object.size() > 1 || !object.contains("preset"))) {
      fail_at(item, path, "needs a name of its own, because it is not a preset as it is");
    }
    const Json allocation = object.value("allocation", Json());
    object.erase("allocation");
    scheme = located(item, path, [&] { return scheme_from_json(object, path); });
    if (allocation.is_string())
      located(item, path + ".allocation",
              [&] { apply(read_allocation(allocation.get<std::string>(), scheme), scheme); });
  } else {
    fail_at(item, path, "expected a preset's name or a mapping, got " + item.shown());
  }
  check_name(item, path, scheme.name);
  located(item, path, [&] { validate(scheme); });
  return scheme;
}

}  // namespace dgap::schemas
