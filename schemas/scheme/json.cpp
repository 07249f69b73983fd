#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/scheme/index_set.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/names.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 18> kTensorKeys = {
    "bits",   "quantizer",  "axis",     "group_size", "center",          "normalize",
    "rotate", "rotation",   "levels",   "scale",      "norm_correction", "outlier_bits",
    "sketch", "iterations", "outliers", "q_norm",     "layer_scale",     "window"};
constexpr std::array<std::string_view, 16> kSchemeKeys = {
    "name",           "preset",          "family",          "key",
    "value",          "key_before_rope", "residual_window", "sink_tokens",
    "prefill",        "rotation_seed",   "overrides",       "model_layers",
    "model_kv_heads", "boundary_layers", "calibration",     "calibration_sha256"};
constexpr std::array<std::string_view, 4> kOverrideKeys = {"layers", "heads", "key", "value"};
constexpr std::size_t kMaxOverrides = 1 << 16;

/// One JSON object; every key of it must be known. Messages carry the path to it.
class Object {
 public:
  Object(const json& object, std::string path, std::span<const std::string_view> keys)
      : object_(object), path_(std::move(path)) {
    if (!object.is_object())
      throw base::UsageError(path_ + ": expected an object, got " + shown(object));
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      const std::string_view near = base::nearest(key, keys);
      throw base::UsageError(path_ + ": unknown key '" + key + "'" +
                             (near.empty() ? "; known are " + base::join(keys)
                                           : "; did you mean '" + std::string(near) + "'?"));
    }
  }

  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  std::string path(const char* key) const { return path_ + "." + key; }

  void read(const char* key, std::string& field) const {
    if (const json* value = typed(key, &json::is_string, "text")) field = value->get<std::string>();
  }
  void read(const char* key, bool& field) const {
    if (const json* value = typed(key, &json::is_boolean, "true or false"))
      field = value->get<bool>();
  }
  void read(const char* key, int& field) const {
    const json* value = typed(key, &json::is_number_integer, "an integer");
    if (value == nullptr) return;
    const bool low = value->is_number_unsigned() && value->get<std::uint64_t>() <= kMaxInt;
    const bool signed_ok =
        !value->is_number_unsigned() && value->get<std::int64_t>() >= -std::int64_t{kMaxInt};
    if (!low && !signed_ok)
      throw base::UsageError(path(key) + ": " + value->dump() + " is out of range");
    field = value->get<int>();
  }
  void read(const char* key, float& field) const {
    if (const json* value = typed(key, &json::is_number, "a number")) field = number(*value, key);
  }
  void read(const char* key, double& field) const {
    if (const json* value = typed(key, &json::is_number, "a number")) field = value->get<double>();
  }
  void read(const char* key, std::vector<float>& field) const {
    const json* value = typed(key, &json::is_array, "a list of numbers");
    if (value == nullptr) return;
    if (value->size() > kMaxLevels)
      throw base::UsageError(path(key) + ": at most " + std::to_string(kMaxLevels) + " numbers");
    field.clear();
    for (const json& entry : *value) {
      if (!entry.is_number())
        throw base::UsageError(path(key) + ": expected a list of numbers, got " + shown(entry));
      field.push_back(number(entry, key));
    }
  }
  void read(const char* key, std::uint64_t& field) const {
    const json* value = typed(key, &json::is_number_integer, "an integer");
    if (value == nullptr) return;
    if (!value->is_number_unsigned() && value->get<std::int64_t>() < 0)
      throw base::UsageError(path(key) + ": " + value->dump() + " is out of range");
    field = value->get<std::uint64_t>();
  }
  template <class Enum>
  void read(const char* key, Enum& field, std::span<const std::string_view> names) const {
    std::string text;
    read(key, text);
    if (find(key) == nullptr) return;
    const auto it = std::find(names.begin(), names.end(), text);
    if (it == names.end())
      throw base::UsageError(path(key) + ": '" + text + "' is not one of " + base::join(names));
    field = static_cast<Enum>(it - names.begin());
  }

 private:
  static constexpr std::size_t kMaxLevels = 256;
  static constexpr unsigned kMaxInt = std::numeric_limits<int>::max();

  float number(const json& value, const char* key) const {
    const double number = value.get<double>();
    if (!(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max())))
      throw base::UsageError(path(key) + ": " + value.dump() + " is out of range");
    return static_cast<float>(number);
  }
  static std::string shown(const json& value) {
    return value.is_object() || value.is_array() ? std::string(value.type_name()) : value.dump();
  }
  const json* typed(const char* key, bool (json::*is)() const noexcept,
                    const char* expected) const {
    const json* value = find(key);
    if (value != nullptr && !(value->*is)())
      throw base::UsageError(path(key) + ": expected " + expected + ", got " + shown(*value));
    return value;
  }

  const json& object_;
  std::string path_;
};

/// Settings that only some quantisers have are left out where they have their defaults.
json tensor_json(const TensorScheme& tensor) {
  json object = {{"bits", tensor.bits},          {"quantizer", name_of(tensor.quantizer)},
                 {"axis", name_of(tensor.axis)}, {"group_size", tensor.group_size},
                 {"center", tensor.center},      {"normalize", tensor.normalize},
                 {"rotate", tensor.rotate},      {"window", name_of(tensor.window)}};
  const TensorScheme plain;
  if (tensor.rotation != plain.rotation) object["rotation"] = name_of(tensor.rotation);
  if (!tensor.levels.empty()) object["levels"] = tensor.levels;
  if (tensor.scale != plain.scale) object["scale"] = tensor.scale;
  if (tensor.layer_scale) object["layer_scale"] = true;
  if (tensor.norm_correction) object["norm_correction"] = true;
  if (tensor.outlier_bits != 0) object["outlier_bits"] = tensor.outlier_bits;
  if (tensor.sketch != plain.sketch) object["sketch"] = name_of(tensor.sketch);
  if (tensor.iterations != plain.iterations) object["iterations"] = tensor.iterations;
  if (tensor.outliers != plain.outliers) object["outliers"] = tensor.outliers;
  if (tensor.q_norm) object["q_norm"] = true;
  return object;
}

void read_tensor(const Object& parent, const char* key, TensorScheme& tensor) {
  const json* value = parent.find(key);
  if (value == nullptr) return;
  const Object object(*value, parent.path(key), kTensorKeys);
  const TensorScheme before = tensor;
  object.read("bits", tensor.bits);
  if (tensor.bits == 16)
    tensor = TensorScheme{};
  else if (before.quantizer == default_quantizer(before.bits) ||
           !fits(before.quantizer, tensor.bits))
    tensor.quantizer = default_quantizer(tensor.bits);
  if (object.find("quantizer") != nullptr) {
    object.read("quantizer", tensor.quantizer, kQuantizerNames);
    const int single = bit_widths(tensor.quantizer).single();
    if (single != 0 && object.find("bits") == nullptr) tensor.bits = single;
    if (is_block(tensor.quantizer)) tensor.group_size = kBlockSize;
  }
  object.read("axis", tensor.axis, kAxisNames);
  object.read("group_size", tensor.group_size);
  object.read("center", tensor.center);
  object.read("normalize", tensor.normalize);
  object.read("rotate", tensor.rotate);
  object.read("window", tensor.window, kWindowNames);
  object.read("rotation", tensor.rotation, kRotationNames);
  object.read("levels", tensor.levels);
  object.read("scale", tensor.scale);
  object.read("layer_scale", tensor.layer_scale);
  object.read("norm_correction", tensor.norm_correction);
  object.read("outlier_bits", tensor.outlier_bits);
  object.read("sketch", tensor.sketch, kSketchNames);
  object.read("iterations", tensor.iterations);
  object.read("outliers", tensor.outliers);
  object.read("q_norm", tensor.q_norm);
}

void read_indices(const Object& object, const char* key, std::vector<int>& indices) {
  std::string text;
  object.read(key, text);
  if (text.empty()) return;
  const std::optional<std::vector<int>> read = parse_index_set(text);
  if (!read)
    throw base::UsageError(object.path(key) + ": '" + text +
                           "' is not a list of ascending numbers and ranges such as 0-3,7, none "
                           "above " +
                           std::to_string(kMaxIndex));
  indices = *read;
}

json override_json(const Override& part) {
  json object = {{"layers", index_set_text(part.layers)}, {"heads", index_set_text(part.heads)}};
  if (part.key) object["key"] = tensor_json(*part.key);
  if (part.value) object["value"] = tensor_json(*part.value);
  return object;
}

}  // namespace

std::vector<Override> overrides_from_json(const json& list, const Scheme& scheme,
                                          std::string_view where) {
  const std::string path(where);
  if (!list.is_array()) throw base::UsageError(path + ": expected a list");
  if (list.size() > kMaxOverrides)
    throw base::UsageError(path + ": has " + std::to_string(list.size()) + " items; at most " +
                           std::to_string(kMaxOverrides) + " are read");
  std::vector<Override> overrides;
  for (const json& item : list) {
    const Object object(item, path + "." + std::to_string(overrides.size()), kOverrideKeys);
    Override& part = overrides.emplace_back();
    read_indices(object, "layers", part.layers);
    read_indices(object, "heads", part.heads);
    const auto read = [&](const char* key, TensorScheme tensor, std::optional<TensorScheme>& to) {
      if (object.find(key) == nullptr) return;
      read_tensor(object, key, tensor);
      to = tensor;
    };
    read("key", scheme.key, part.key);
    read("value", scheme.value, part.value);
  }
  return overrides;
}

json overrides_to_json(const std::vector<Override>& overrides) {
  json list = json::array();
  for (const Override& part : overrides) list.push_back(override_json(part));
  return list;
}

json to_json(const Scheme& scheme) {
  json object = {{"name", scheme.name},
                 {"family", scheme.family},
                 {"key", tensor_json(scheme.key)},
                 {"value", tensor_json(scheme.value)},
                 {"key_before_rope", scheme.key_before_rope},
                 {"residual_window", scheme.residual_window},
                 {"sink_tokens", scheme.sink_tokens},
                 {"prefill", name_of(scheme.prefill)},
                 {"rotation_seed", scheme.rotation_seed}};
  if (!scheme.overrides.empty()) object["overrides"] = overrides_to_json(scheme.overrides);
  if (scheme.model_layers != 0) object["model_layers"] = scheme.model_layers;
  if (scheme.model_kv_heads != 0) object["model_kv_heads"] = scheme.model_kv_heads;
  if (scheme.boundary_layers != 0) object["boundary_layers"] = scheme.boundary_layers;
  if (!scheme.calibration.empty()) object["calibration"] = scheme.calibration;
  if (!scheme.calibration_sha256.empty()) object["calibration_sha256"] = scheme.calibration_sha256;
  return object;
}

Scheme scheme_from_json(const json& value, std::string_view where) {
  const Object object(value, std::string(where), kSchemeKeys);
  Scheme scheme;
  scheme.family = "custom";
  std::string base;
  object.read("preset", base);
  try {
    if (object.find("preset") != nullptr) scheme = preset(base);
    const Scheme start = scheme;
    object.read("name", scheme.name);
    read_tensor(object, "key", scheme.key);
    read_tensor(object, "value", scheme.value);
    object.read("key_before_rope", scheme.key_before_rope);
    const bool same = scheme.key == start.key && scheme.value == start.value &&
                      scheme.key_before_rope == start.key_before_rope;
    if (!same) scheme.family = "custom";
    object.read("family", scheme.family);
    object.read("residual_window", scheme.residual_window);
    object.read("sink_tokens", scheme.sink_tokens);
    object.read("prefill", scheme.prefill, kPrefillNames);
    object.read("rotation_seed", scheme.rotation_seed);
    object.read("model_layers", scheme.model_layers);
    object.read("model_kv_heads", scheme.model_kv_heads);
    object.read("boundary_layers", scheme.boundary_layers);
    object.read("calibration", scheme.calibration);
    object.read("calibration_sha256", scheme.calibration_sha256);
    if (const json* list = object.find("overrides"))
      scheme.overrides = overrides_from_json(*list, scheme, object.path("overrides"));
    validate(scheme);
  } catch (const base::UsageError& error) {
    const std::string message = error.what();
    if (message.starts_with(where)) throw;
    throw base::UsageError(std::string(where) + ": " + message);
  }
  return scheme;
}

}  // namespace dgap::schemas
