#include "schemas/config/reader.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/config/numbers.hpp"

namespace dgap::schemas {
namespace {

using Kind = YamlNode::Kind;

[[noreturn]] void fail_type(const YamlNode& node, std::string_view path,
                            const std::string& expected) {
  fail_at(node, path, "expected " + expected + ", got " + node.shown());
}

std::string range_text(const std::string& low, const std::string& high, bool low_open,
                       bool high_open) {
  return std::string("must be in ") + (low_open ? "(" : "[") + low + ", " + high +
         (high_open ? ")" : "]");
}

std::string hint(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view near = base::nearest(word, known);
  return near.empty() ? "" : "; did you mean " + std::string(near) + "?";
}

/// "must be one of a, b and c, got "x"; did you mean ...".
void check_choice(const YamlNode& node, std::string_view path, const Choice& choice) {
  const std::string& text = read_text(node, path);
  const auto holds = [&](const std::vector<std::string_view>& values) {
    return std::find(values.begin(), values.end(), text) != values.end();
  };
  if (holds(choice.values)) return;
  const std::string allowed = choice.values.size() == 1
                                  ? "must be " + std::string(choice.values[0])
                                  : "must be one of " + base::join(choice.values);
  if (holds(choice.later)) {
    fail_at(node, path, quoted_for_message(text) + " is not built in this version; it " + allowed);
  }
  fail_at(node, path, allowed + ", got " + node.shown() + hint(text, choice.values));
}

/// A scalar or list as YAML on one line.
std::string flow_text(const YamlNode& node, std::string_view path) {
  if (node.kind == Kind::scalar && !node.quoted) return node.text;
  if (node.kind == Kind::scalar) {
    check_name(node, path, node.text);
    return "\"" + node.text + "\"";
  }
  if (node.kind != Kind::list) fail_type(node, path, "a value");
  std::string text = "[";
  for (const YamlNode& item : node.items) {
    text += (text.size() > 1 ? ", " : "") + flow_text(item, path);
  }
  return text + "]";
}

/// Adds the values that `node`, a mapping at the key `prefix`, has for keys of the configuration.
void read_grid(const YamlNode& node, const std::string& path, const std::string& prefix,
               const SearchGrid& rule, std::map<std::string, std::vector<std::string>>& grid) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const YamlNode& item = node.items[i];
    const std::string key = (prefix.empty() ? "" : prefix + ".") + node.keys[i].text;
    const std::string item_path = path + "." + key;
    if (item.kind == Kind::map) {
      read_grid(item, path, key, rule, grid);
      continue;
    }
    if (std::find(rule.keys.begin(), rule.keys.end(), key) == rule.keys.end()) {
      fail_at(item, item_path, "cannot be searched; what can is " + base::join(rule.keys));
    }
    if (item.kind != Kind::list || item.items.empty() || item.items.size() > rule.high_count) {
      fail_at(item, item_path,
              "expected a list of 1 to " + std::to_string(rule.high_count) + " values, got " +
                  item.shown());
    }
    std::vector<std::string> texts;
    for (const YamlNode& value : item.items) {
      texts.push_back(flow_text(value, item_path + "." + std::to_string(texts.size())));
      if (std::find(texts.begin(), texts.end() - 1, texts.back()) == texts.end() - 1) continue;
      fail_at(value, item_path, quoted_for_message(texts.back()) + " is given twice");
    }
    if (!grid.emplace(key, std::move(texts)).second) {
      fail_at(item, item_path, "is given twice");
    }
  }
}

}  // namespace

std::int64_t read_integer(const YamlNode& node, std::string_view path, const IntegerRange& range) {
  if (node.kind != Kind::scalar || node.quoted) fail_type(node, path, "an integer");
  bool negative = false;
  std::uint64_t magnitude = 0;
  const std::string wrong = parse_integer(node.text, negative, magnitude);
  if (!wrong.empty()) fail_type(node, path, "an integer (" + wrong + ")");
  const bool fits =
      magnitude <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t value = fits ? (negative ? -static_cast<std::int64_t>(magnitude)
                                              : static_cast<std::int64_t>(magnitude))
                                  : 0;
  if (!fits || value < range.low || value > range.high) {
    fail_at(node, path,
            range_text(std::to_string(range.low), std::to_string(range.high), false, false) +
                ", got " + node.text);
  }
  return value;
}

std::uint64_t read_unsigned(const YamlNode& node, std::string_view path) {
  if (node.kind != Kind::scalar || node.quoted) fail_type(node, path, "an integer");
  bool negative = false;
  std::uint64_t magnitude = 0;
  const std::string wrong = parse_integer(node.text, negative, magnitude);
  if (!wrong.empty()) fail_type(node, path, "an integer (" + wrong + ")");
  if (negative && magnitude != 0) fail_at(node, path, "must not be negative, got " + node.text);
  return magnitude;
}

double read_real(const YamlNode& node, std::string_view path, const RealRange& range) {
  if (node.kind != Kind::scalar || node.quoted) fail_type(node, path, "a number");
  double value = 0;
  const std::string wrong = parse_real(node.text, value);
  if (!wrong.empty()) fail_type(node, path, "a number (" + wrong + ")");
  if (value < range.low || value > range.high || (range.low_open && value == range.low) ||
      (range.high_open && value == range.high)) {
    fail_at(node, path,
            range_text(base::number(range.low), base::number(range.high), range.low_open,
                       range.high_open) +
                ", got " + node.text);
  }
  return value;
}

bool read_boolean(const YamlNode& node, std::string_view path) {
  if (node.kind == Kind::scalar && !node.quoted) {
    if (node.text == "true") return true;
    if (node.text == "false") return false;
  }
  fail_type(node, path, "true or false");
}

const std::string& read_text(const YamlNode& node, std::string_view path) {
  if (node.kind != Kind::scalar) fail_type(node, path, "text");
  const bool control = std::any_of(node.text.begin(), node.text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
  if (control || base::valid_utf8_prefix(node.text) != node.text.size()) {
    fail_type(node, path, "text without control characters");
  }
  return node.text;
}

void require_map(const YamlNode& node, std::string_view path) {
  if (node.kind != Kind::map) fail_type(node, path, "a mapping of keys");
}

void check_name(const YamlNode& node, std::string_view path, std::string_view name) {
  const bool valid = !name.empty() && name.size() <= 200 && name != "." && name != ".." &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                     });
  if (!valid) {
    fail_at(node, path,
            "must be a name of letters, digits, '.', '_' and '-', got " + quoted_for_message(name));
  }
}

void fail_unknown_key(const YamlNode& node, std::size_t index, std::string_view path,
                      const std::vector<std::string_view>& known) {
  const YamlKey& key = node.keys[index];
  std::string message = hint(key.text, known);
  if (message.empty()) message = "; known are " + base::join(known);
  const std::string shown = quoted_for_message(key.text);
  throw base::UsageError(node.items[index].where(key.line) + ": " +
                         (path.empty() ? "" : std::string(path) + ".") +
                         shown.substr(1, shown.size() - 2) + ": unknown key" + message);
}

ConfigReader::ConfigReader(const YamlNode& root) {
  require_map(root, "");
  frames_.push_back({&root, "", {}});
}

const YamlNode* ConfigReader::take(std::string_view key) {
  Frame& frame = frames_.back();
  frame.known.push_back(key);
  return frame.node == nullptr ? nullptr : frame.node->find(key);
}

std::string ConfigReader::path_of(std::string_view key) const {
  const std::string& path = frames_.back().path;
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

void ConfigReader::enter(const YamlNode* node, std::string_view key) {
  const std::string path = path_of(key);
  if (node != nullptr) require_map(*node, path);
  frames_.push_back({node, path, {}});
}

void ConfigReader::leave() {
  const Frame& frame = frames_.back();
  for (std::size_t i = 0; frame.node != nullptr && i < frame.node->keys.size(); ++i) {
    const std::string_view key = frame.node->keys[i].text;
    if (std::find(frame.known.begin(), frame.known.end(), key) == frame.known.end()) {
      fail_unknown_key(*frame.node, i, frame.path, frame.known);
    }
  }
  frames_.pop_back();
}

void ConfigReader::later(std::string_view key, std::string_view meaning) {
  if (const YamlNode* node = take(key)) {
    fail_at(*node, path_of(key),
            "known (" + std::string(meaning) + "), but not built in this version; remove the key");
  }
}

void ConfigReader::sites(std::string_view key, SitesConfig& sites, std::string_view meaning) {
  const YamlNode* node = frames_.back().node == nullptr ? nullptr : frames_.back().node->find(key);
  if (node == nullptr || node->kind == Kind::map) {
    return section(key, meaning, [&] {
      field("train", sites.train, kSitesPerBook, "");
      field("validation", sites.validation, kSitesPerBook, "");
      field("test", sites.test, kSitesPerBook, "");
    });
  }
  take(key);
  const auto all = static_cast<int>(read_integer(*node, path_of(key), kSitesPerBook));
  sites = {all, all, all};
}

void ConfigReader::precisions(std::string_view key, std::vector<Scheme>& schemes,
                              std::string_view) {
  const YamlNode* node = take(key);
  if (node == nullptr) return;
  const std::string path = path_of(key);
  if (node->kind != Kind::list) fail_type(*node, path, "a list of cache schemes");
  for (const YamlNode& item : node->items) {
    const std::string item_path = path + "." + std::to_string(schemes.size());
    Scheme scheme = read_precision(item, item_path);
    const auto same = std::find_if(schemes.begin(), schemes.end(),
                                   [&](const Scheme& other) { return other.name == scheme.name; });
    if (same != schemes.end()) {
      fail_at(item, item_path,
              "the name " + scheme.name + " is taken by item " +
                  std::to_string(same - schemes.begin()) + "; names must be distinct");
    }
    schemes.push_back(std::move(scheme));
  }
}

void ConfigReader::read(const YamlNode& node, const std::string& path, int& value,
                        const IntegerRange& rule) {
  value = static_cast<int>(read_integer(node, path, rule));
}
void ConfigReader::read(const YamlNode& node, const std::string& path, std::int64_t& value,
                        const IntegerRange& rule) {
  value = read_integer(node, path, rule);
}
void ConfigReader::read(const YamlNode& node, const std::string& path, std::uint64_t& value,
                        const Any&) {
  value = read_unsigned(node, path);
}
void ConfigReader::read(const YamlNode& node, const std::string& path, bool& value, const Any&) {
  value = read_boolean(node, path);
}
void ConfigReader::read(const YamlNode& node, const std::string& path, double& value,
                        const RealRange& rule) {
  value = read_real(node, path, rule);
}
void ConfigReader::read(const YamlNode& node, const std::string& path, std::string& value,
                        const Text&) {
  if (read_text(node, path).empty()) fail_at(node, path, "must not be empty");
  value = node.text;
}
void ConfigReader::read(const YamlNode& node, const std::string& path, std::string& value,
                        const Name&) {
  check_name(node, path, read_text(node, path));
  value = node.text;
}
void ConfigReader::read(const YamlNode& node, const std::string& path, std::string& value,
                        const Choice& rule) {
  check_choice(node, path, rule);
  value = node.text;
}

void ConfigReader::read(const YamlNode& node, const std::string& path, std::vector<int>& value,
                        const IntegerList& rule) {
  if (node.kind != Kind::list) fail_type(node, path, "a list of integers");
  if (node.items.size() < rule.low_count || node.items.size() > rule.high_count) {
    fail_at(node, path,
            "must have " + std::to_string(rule.low_count) + " to " +
                std::to_string(rule.high_count) + " items, has " +
                std::to_string(node.items.size()));
  }
  value.clear();
  for (const YamlNode& item : node.items) {
    const std::string item_path = path + "." + std::to_string(value.size());
    const auto number = static_cast<int>(read_integer(item, item_path, rule.each));
    if (rule.ascending && !value.empty() && number <= value.back()) {
      fail_at(item, item_path,
              "must be greater than the item before it (" + std::to_string(value.back()) +
                  "), got " + item.text);
    }
    value.push_back(number);
  }
}

void ConfigReader::read(const YamlNode& node, const std::string& path,
                        std::vector<std::string>& value, const Choice& rule) {
  if (node.kind != Kind::list) fail_type(node, path, "a list");
  value.clear();
  for (const YamlNode& item : node.items) {
    const std::string item_path = path + "." + std::to_string(value.size());
    check_choice(item, item_path, rule);
    if (std::find(value.begin(), value.end(), item.text) != value.end()) {
      fail_at(item, item_path, quoted_for_message(item.text) + " is given twice");
    }
    value.push_back(item.text);
  }
}

void ConfigReader::read(const YamlNode& node, const std::string& path, std::vector<double>& value,
                        const RealList& rule) {
  if (node.kind != Kind::list) fail_type(node, path, "a list of numbers");
  if (node.items.size() > rule.high_count) {
    fail_at(node, path,
            "must have at most " + std::to_string(rule.high_count) + " items, has " +
                std::to_string(node.items.size()));
  }
  value.clear();
  for (const YamlNode& item : node.items) {
    const std::string item_path = path + "." + std::to_string(value.size());
    const double number = read_real(item, item_path, rule.each);
    if (!value.empty() && number <= value.back()) {
      fail_at(item, item_path,
              "must be greater than the item before it (" + base::number(value.back()) + "), got " +
                  item.text);
    }
    value.push_back(number);
  }
}

void ConfigReader::read(const YamlNode& node, const std::string& path,
                        std::map<std::string, std::vector<std::string>>& value,
                        const SearchGrid& rule) {
  require_map(node, path);
  value.clear();
  read_grid(node, path, "", rule, value);
}

void ConfigReader::read(const YamlNode& node, const std::string& path,
                        std::map<std::string, double>& value, const RealRange& rule) {
  require_map(node, path);
  value.clear();
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& name = node.keys[i].text;
    const std::string item_path = path + "." + name;
    check_name(node.items[i], item_path, name);
    value[name] = read_real(node.items[i], item_path, rule);
  }
}

}  // namespace dgap::schemas
