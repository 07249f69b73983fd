#pragma once
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace dgap::schemas {

/// The part of JSON Schema 2020-12 that the project's schemas use. Returns what is wrong, empty
/// when nothing is. Keywords that it does not know are an error, so that none is silently ignored.
class JsonSchema {
 public:
  explicit JsonSchema(nlohmann::json schema) : root_(std::move(schema)) {}
  std::string check(const nlohmann::json& value) const { return check(value, root_, "$"); }

 private:
  using json = nlohmann::json;

  static bool has_type(const json& v, const std::string& type) {
    if (type == "integer") return v.is_number_integer();
    if (type == "number") return v.is_number();
    return (type == "object" && v.is_object()) || (type == "array" && v.is_array()) ||
           (type == "string" && v.is_string()) || (type == "boolean" && v.is_boolean()) ||
           (type == "null" && v.is_null());
  }

  std::string check(const json& v, const json& schema, const std::string& path) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : path + ": is not allowed";
    for (const auto& [keyword, rule] : schema.items()) {
      const std::string wrong = check_keyword(v, schema, keyword, rule, path);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check_keyword(const json& v, const json& schema, const std::string& keyword,
                            const json& rule, const std::string& path) const {
    const auto wrong = [&] {
      return path + ": " + keyword + " " + rule.dump() + " fails for " + v.dump().substr(0, 80);
    };
    const auto ok = [&](bool holds) { return holds ? std::string() : wrong(); };
    if (keyword[0] == '$' && keyword != "$ref") return "";
    if (keyword == "title" || keyword == "description" || keyword == "default" ||
        keyword == "properties") {
      return keyword == "properties" ? check_properties(v, schema, path) : "";
    }
    if (keyword == "$ref")
      return check(v, root_.at(json::json_pointer(rule.get<std::string>().substr(1))), path);
    if (keyword == "type") {
      if (rule.is_string()) return ok(has_type(v, rule));
      return ok(
          std::any_of(rule.begin(), rule.end(), [&](const json& t) { return has_type(v, t); }));
    }
    if (keyword == "const") return ok(v == rule);
    if (keyword == "enum") return ok(std::find(rule.begin(), rule.end(), v) != rule.end());
    if (keyword == "minimum") return ok(!v.is_number() || v >= rule);
    if (keyword == "exclusiveMinimum") return ok(!v.is_number() || v > rule);
    if (keyword == "maximum") return ok(!v.is_number() || v <= rule);
    if (keyword == "minLength")
      return ok(!v.is_string() || v.get<std::string>().size() >= rule.get<std::size_t>());
    if (keyword == "minItems") return ok(!v.is_array() || v.size() >= rule.get<std::size_t>());
    if (keyword == "maxItems") return ok(!v.is_array() || v.size() <= rule.get<std::size_t>());
    if (keyword == "pattern")
      return ok(!v.is_string() ||
                std::regex_search(v.get<std::string>(), std::regex(rule.get<std::string>())));
    if (keyword == "allOf") {
      for (const json& each : rule) {
        if (std::string w = check(v, each, path); !w.empty()) return w;
      }
      return "";
    }
    if (keyword == "oneOf") {
      return ok(std::count_if(rule.begin(), rule.end(),
                              [&](const json& each) { return check(v, each, path).empty(); }) == 1);
    }
    if (keyword == "items") {
      for (std::size_t i = 0; v.is_array() && i < v.size(); ++i) {
        if (std::string w = check(v[i], rule, path + "." + std::to_string(i)); !w.empty()) return w;
      }
      return "";
    }
    if (keyword == "required") {
      for (const json& key : rule) {
        if (v.is_object() && !v.contains(key.get<std::string>()))
          return path + ": lacks " + key.dump();
      }
      return "";
    }
    if (keyword == "additionalProperties" || keyword == "propertyNames")
      return check_others(v, schema, keyword, rule, path);
    return path + ": the test does not know the keyword " + keyword;
  }

  std::string check_properties(const json& v, const json& schema, const std::string& path) const {
    for (const auto& [key, each] : schema["properties"].items()) {
      if (!v.is_object() || !v.contains(key)) continue;
      if (std::string w = check(v[key], each, path + "." + key); !w.empty()) return w;
    }
    return "";
  }

  std::string check_others(const json& v, const json& schema, const std::string& keyword,
                           const json& rule, const std::string& path) const {
    if (!v.is_object()) return "";
    for (const auto& [key, value] : v.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(key);
      if (keyword == "additionalProperties" && named) continue;
      const std::string w = keyword == "propertyNames" ? check(json(key), rule, path)
                                                       : check(value, rule, path + "." + key);
      if (!w.empty()) return w;
    }
    return "";
  }

  json root_;
};

}  // namespace dgap::schemas
