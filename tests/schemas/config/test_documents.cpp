// config.schema.json and the tables of config-format.md are made from the one description of the
// configuration (schemas/config/fields.hpp). DGAP_UPDATE_DOCUMENTS=1 writes them anew.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "helpers.hpp"
#include "schemas/config/fields.hpp"
#include "schemas/config/reader.hpp"

namespace dgap::schemas {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<std::string_view>& words, const std::string& between) {
  std::string out;
  for (const std::string_view word : words)
    out += (out.empty() ? "" : between) + "`" + std::string(word) + "`";
  return out;
}

/// The visitor that documents: a JSON Schema of nested objects, and rows of a table per top-level
/// key.
class Documenter {
 public:
  Json schema;
  std::string tables, sections;

  Documenter() {
    schema = {
        {"$schema", "https://json-schema.org/draft/2020-12/schema"},
        {"title", "dgap configuration, version 1"},
        {"description",
         "Made from schemas/config/fields.hpp; the reader also checks relations between keys."}};
    open_object(schema);
    objects_ = {&schema};
  }

  template <class T, class Rule>
  void field(std::string_view key, const T& value, const Rule& rule, std::string_view meaning) {
    Json property = {{"description", meaning}};
    const auto [type, range] = describe(property, value, rule);
    const bool required = meaning.ends_with("required");
    if (!required) property["default"] = value;
    add(key, property);
    row(key, type, required ? "required" : "`" + shown(value) + "`", range, meaning);
  }

  template <class Body>
  void section(std::string_view key, std::string_view meaning, const Body& body) {
    const std::size_t path = path_.size();
    if (path_.empty())
      heading(key, meaning);
    else
      row(key, "mapping", "", "", meaning);
    Json object = {{"description", meaning}};
    open_object(object);
    objects_.push_back(&object);
    path_ += std::string(key) + ".";
    body();
    path_.resize(path);
    objects_.pop_back();
    add(key, object);
  }

  void sites(std::string_view key, const SitesConfig& sites, std::string_view meaning) {
    const auto count = [](int value) {
      return Json{{"type", "integer"},
                  {"minimum", kSitesPerBook.low},
                  {"maximum", kSitesPerBook.high},
                  {"default", value}};
    };
    Json object;
    open_object(object);
    object["properties"] = {{"train", count(sites.train)},
                            {"validation", count(sites.validation)},
                            {"test", count(sites.test)}};
    Json integer = count(sites.train);
    add(key, {{"description", meaning}, {"oneOf", {integer, object}}});
    row(key, "integer or mapping {train, validation, test}",
        "`" + std::to_string(sites.train) + "`", range_of(kSitesPerBook), meaning);
  }

  void precisions(std::string_view key, const std::vector<Scheme>&, std::string_view meaning) {
    const Json preset = {{"type", "string"}, {"description", "a preset, see docs/schemes.md"}};
    Json object = like(Json::parse(precision_keys().dump()));
    object["properties"]["preset"] = preset;
    add(key, {{"description", meaning},
              {"type", "array"},
              {"minItems", 1},
              {"items", {{"oneOf", {preset, object}}}}});
    heading(key, meaning);
    row(key, "list of preset names and mappings", "required", "", "see below");
  }

  void later(std::string_view key, std::string_view meaning) {
    later_ += (later_.empty() ? "" : ", ") +
              ("`" + std::string(key) + "` (" + std::string(meaning) + ")");
  }

  std::string take_tables() {
    return tables + "\nKnown, but not built in this version: " + later_ + ".\n";
  }

 private:
  static void open_object(Json& object) {
    object["type"] = "object";
    object["additionalProperties"] = false;
    object["properties"] = Json::object();
  }
  void add(std::string_view key, Json property) {
    (*objects_.back())["properties"][std::string(key)] = std::move(property);
  }
  void heading(std::string_view key, std::string_view meaning) {
    tables += "\n### `" + std::string(key) + "`: " + std::string(meaning) +
              "\n\n| key | type | default | values | meaning |\n| --- | --- | --- | --- | --- |\n";
  }
  void row(std::string_view key, const std::string& type, const std::string& value,
           const std::string& range, std::string_view meaning) {
    if (tables.empty())
      tables = "| key | type | default | values | meaning |\n| --- | --- | --- | --- | --- |\n";
    tables += "| `" + path_ + std::string(key) + "` | " + type + " | " + value + " | " + range +
              " | " + std::string(meaning) + " |\n";
  }

  /// The JSON Schema of an object whose values stand for their types.
  static Json like(const Json& value) {
    if (value.is_object()) {
      Json object;
      open_object(object);
      for (const auto& [key, item] : value.items()) object["properties"][key] = like(item);
      return object;
    }
    if (value.is_array()) return {{"type", "array"}, {"items", like(value.front())}};
    return {{"type", value.is_boolean()          ? "boolean"
                     : value.is_number_integer() ? "integer"
                     : value.is_number()         ? "number"
                                                 : "string"}};
  }

  static std::string shown(double value) { return base::number(value); }
  static std::string shown(bool value) { return value ? "true" : "false"; }
  static std::string shown(const std::string& value) { return value; }
  template <class T>
  static std::string shown(const T& value) {
    return Json(value).dump();
  }
  static std::string range_of(const IntegerRange& range) {
    if (range.high == std::numeric_limits<std::int64_t>::max())
      return "≥ " + std::to_string(range.low);
    return std::to_string(range.low) + " … " + std::to_string(range.high);
  }

  using TypeAndRange = std::pair<std::string, std::string>;

  template <class T>
  static TypeAndRange describe(Json& property, const T&, const IntegerRange& rule) {
    property.update({{"type", "integer"}, {"minimum", rule.low}, {"maximum", rule.high}});
    return {"integer", range_of(rule)};
  }
  static TypeAndRange describe(Json& property, std::uint64_t, const Any&) {
    property.update({{"type", "integer"},
                     {"minimum", 0},
                     {"maximum", std::numeric_limits<std::uint64_t>::max()}});
    return {"integer", "0 … 2^64 - 1"};
  }
  static TypeAndRange describe(Json& property, bool, const Any&) {
    property["type"] = "boolean";
    return {"boolean", "`true`, `false`"};
  }
  static TypeAndRange describe(Json& property, double, const RealRange& rule) {
    property["type"] = "number";
    property[rule.low_open ? "exclusiveMinimum" : "minimum"] = rule.low;
    property[rule.high_open ? "exclusiveMaximum" : "maximum"] = rule.high;
    return {"number", std::string(rule.low_open ? "(" : "[") + base::number(rule.low) + ", " +
                          base::number(rule.high) + (rule.high_open ? ")" : "]")};
  }
  static TypeAndRange describe(Json& property, const std::vector<double>&, const RealList& rule) {
    Json number;
    const auto [type, range] = describe(number, 0.0, rule.each);
    property.update({{"type", "array"}, {"maxItems", rule.high_count}, {"items", number}});
    return {"list of numbers",
            "at most " + std::to_string(rule.high_count) + " in " + range + ", ascending"};
  }
  static TypeAndRange describe(Json& property,
                               const std::map<std::string, std::vector<std::string>>&,
                               const SearchGrid& rule) {
    const Json values = {{"type", "array"}, {"minItems", 1}, {"maxItems", rule.high_count}};
    property["type"] = "object";
    property["additionalProperties"] = false;
    for (const std::string_view key : rule.keys) {
      Json* object = &property;  // keys are given whole, or as mappings inside mappings
      object->operator[]("properties")[std::string(key)] = values;
      for (std::string_view rest = key;;) {
        const std::size_t point = rest.find('.');
        Json& inner = (*object)["properties"][std::string(rest.substr(0, point))];
        if (point == std::string_view::npos) {
          inner = values;
          break;
        }
        inner["type"] = "object";
        object = &inner;
        rest.remove_prefix(point + 1);
      }
    }
    return {"mapping of keys to lists of values", joined(rule.keys, ", ")};
  }
  static TypeAndRange describe(Json& property, const std::map<std::string, double>&,
                               const RealRange& rule) {
    Json number;
    const auto [type, range] = describe(number, 0.0, rule);
    property.update({{"type", "object"},
                     {"propertyNames", {{"pattern", "^(?!\\.{1,2}$)[A-Za-z0-9._-]+$"}}},
                     {"additionalProperties", number}});
    return {"mapping of names to numbers", range};
  }
  static TypeAndRange describe(Json& property, const std::string&, const Text&) {
    property.update({{"type", "string"}, {"minLength", 1}});
    return {"text", "not empty"};
  }
  static TypeAndRange describe(Json& property, const std::string&, const Name&) {
    property.update({{"type", "string"}, {"pattern", "^(?!\\.{1,2}$)[A-Za-z0-9._-]+$"}});
    return {"name", "`[A-Za-z0-9._-]+`"};
  }
  static TypeAndRange describe(Json& property, const std::string&, const Choice& rule) {
    property["enum"] = rule.values;
    return {"text", joined(rule.values, ", ")};
  }
  static TypeAndRange describe(Json& property, const std::vector<int>&, const IntegerList& rule) {
    property.update(
        {{"type", "array"},
         {"minItems", rule.low_count},
         {"maxItems", rule.high_count},
         {"items",
          {{"type", "integer"}, {"minimum", rule.each.low}, {"maximum", rule.each.high}}}});
    return {"list of integers", std::to_string(rule.low_count) + " … " +
                                    std::to_string(rule.high_count) + " items in " +
                                    range_of(rule.each) + (rule.ascending ? ", ascending" : "")};
  }
  static TypeAndRange describe(Json& property, const std::vector<std::string>&,
                               const Choice& rule) {
    property.update({{"type", "array"}, {"uniqueItems", true}, {"items", {{"enum", rule.values}}}});
    return {"list of text", joined(rule.values, ", ")};
  }

  std::vector<Json*> objects_;
  std::string path_, later_;
};

Documenter documented() {
  Documenter documenter;
  const Config defaults;
  describe_config(documenter, defaults);
  documenter.schema["required"] = {"model", "corpus", "precisions"};
  for (const char* section : {"model", "corpus"})
    documenter.schema["properties"][section]["required"] = {"path"};
  return documenter;
}

void expect_file(const std::filesystem::path& name, const std::string& expected) {
  const std::filesystem::path path =
      std::filesystem::path(DGAP_SOURCE_DIR) / "schemas" / "config" / name;
  if (std::getenv("DGAP_UPDATE_DOCUMENTS") != nullptr) base::write_file_atomically(path, expected);
  EXPECT_EQ(base::read_file(path), expected)
      << name << " is out of date: run this test with DGAP_UPDATE_DOCUMENTS=1";
}

TEST(ConfigDocuments, SchemaIsCurrent) {
  expect_file("config.schema.json", documented().schema.dump(2) + "\n");
}

TEST(ConfigDocuments, TablesAreCurrent) {
  const std::string begin = "<!-- keys -->\n", end = "<!-- end of keys -->\n";
  const std::string text =
      base::read_file(std::filesystem::path(DGAP_SOURCE_DIR) / "schemas/config/config-format.md");
  const std::size_t from = text.find(begin), to = text.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos && from < to);
  expect_file("config-format.md",
              text.substr(0, from) + begin + documented().take_tables() + text.substr(to));
}

}  // namespace
}  // namespace dgap::schemas
