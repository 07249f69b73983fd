#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "schemas/config/fields.hpp"
#include "schemas/config/yaml_tree.hpp"

namespace dgap::schemas {

/// The visitor that fills a Config from a tree. Keys that are absent keep their defaults; every key
/// that is present is consumed or named in an error.
class ConfigReader {
 public:
  explicit ConfigReader(const YamlNode& root);

  template <class T, class Rule>
  void field(std::string_view key, T& value, const Rule& rule, std::string_view) {
    if (const YamlNode* node = take(key)) read(*node, path_of(key), value, rule);
  }

  template <class Body>
  void section(std::string_view key, std::string_view, const Body& body) {
    enter(take(key), key);
    body();
    leave();
  }

  void precisions(std::string_view key, std::vector<Scheme>& schemes, std::string_view meaning);
  void sites(std::string_view key, SitesConfig& sites, std::string_view meaning);
  void later(std::string_view key, std::string_view meaning);

  /// Call once after describe_config: names what was not consumed.
  void finish() { leave(); }

 private:
  struct Frame {
    const YamlNode* node;  // null where the section is absent
    std::string path;
    std::vector<std::string_view> known;
  };

  const YamlNode* take(std::string_view key);
  std::string path_of(std::string_view key) const;
  void enter(const YamlNode* node, std::string_view key);
  void leave();

  static void read(const YamlNode& node, const std::string& path, int& value,
                   const IntegerRange& rule);
  static void read(const YamlNode& node, const std::string& path, std::int64_t& value,
                   const IntegerRange& rule);
  static void read(const YamlNode& node, const std::string& path, std::uint64_t& value,
                   const Any& rule);
  static void read(const YamlNode& node, const std::string& path, bool& value, const Any& rule);
  static void read(const YamlNode& node, const std::string& path, double& value,
                   const RealRange& rule);
  static void read(const YamlNode& node, const std::string& path, std::string& value,
                   const Text& rule);
  static void read(const YamlNode& node, const std::string& path, std::string& value,
                   const Name& rule);
  static void read(const YamlNode& node, const std::string& path, std::string& value,
                   const Choice& rule);
  static void read(const YamlNode& node, const std::string& path, std::vector<int>& value,
                   const IntegerList& rule);
  static void read(const YamlNode& node, const std::string& path, std::vector<std::string>& value,
                   const Choice& rule);
  static void read(const YamlNode& node, const std::string& path, std::vector<double>& value,
                   const RealList& rule);
  static void read(const YamlNode& node, const std::string& path,
                   std::map<std::string, double>& value, const RealRange& rule);
  static void read(const YamlNode& node, const std::string& path,
                   std::map<std::string, std::vector<std::string>>& value, const SearchGrid& rule);

  std::vector<Frame> frames_;
};

/// The scalars that sections are made of, also used for cache schemes. UsageError naming place,
/// key, what was expected and what was found.
std::int64_t read_integer(const YamlNode& node, std::string_view path, const IntegerRange& range);
std::uint64_t read_unsigned(const YamlNode& node, std::string_view path);
double read_real(const YamlNode& node, std::string_view path, const RealRange& range);
bool read_boolean(const YamlNode& node, std::string_view path);
const std::string& read_text(const YamlNode& node, std::string_view path);
void require_map(const YamlNode& node, std::string_view path);
void check_name(const YamlNode& node, std::string_view path, std::string_view name);
/// UsageError "unknown key; did you mean ..." for a key of `node` at `index`.
[[noreturn]] void fail_unknown_key(const YamlNode& node, std::size_t index, std::string_view path,
                                   const std::vector<std::string_view>& known);

/// The configuration of a tree, checked, but for the settings of training.search.
Config read_tree(const YamlNode& root);

/// What a mapping in `precisions` may have: every key with a value of its type, lists with one
/// item.
nlohmann::json precision_keys();

/// One item of `precisions`: a preset's name, or {name, preset, fields of a scheme...}.
Scheme read_precision(const YamlNode& item, const std::string& path);

}  // namespace dgap::schemas
