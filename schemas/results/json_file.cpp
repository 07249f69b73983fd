#include "schemas/results/json_file.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr int kMaxDepth = 32;
constexpr int kVersion = 1;

std::string shown(const json& value) {
  return value.is_structured() ? std::string("an ") + value.type_name()
                               : value.dump().substr(0, 60);
}

}  // namespace

ResultObject::ResultObject(const json& value, std::string where)
    : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) throw base::IoError(where_ + ": expected an object, got " + shown(value));
}

void ResultObject::fail(const std::string& key, const std::string& what) const {
  throw base::IoError(where_ + (where_.ends_with(':') ? " " : ".") + key + ": " + what);
}

const json& ResultObject::at(const char* key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) fail(key, "is missing");
  seen_.insert(key);
  return *found;
}

double ResultObject::to_number(const json& value, const std::string& key, bool null_allowed) const {
  if (value.is_number()) return value.get<double>();
  if (!value.is_null() || !null_allowed) fail(key, "expected a number, got " + shown(value));
  return std::numeric_limits<double>::quiet_NaN();
}

double ResultObject::number(const char* key) const { return to_number(at(key), key, false); }
double ResultObject::number_or_nan(const char* key) const { return to_number(at(key), key, true); }

std::optional<double> ResultObject::optional_number(const char* key) const {
  if (at(key).is_null()) return std::nullopt;
  return number(key);
}

std::int64_t ResultObject::integer(const char* key, std::int64_t low, std::int64_t high) const {
  const json& value = at(key);
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1}
                                                                                   << 62;
  if (!value.is_number_integer()) fail(key, "expected an integer, got " + shown(value));
  if (huge || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    fail(key, "must be in [" + std::to_string(low) + ", " + std::to_string(high) + "], got " +
                  shown(value));
  }
  return value.get<std::int64_t>();
}

bool ResultObject::boolean(const char* key) const {
  if (!at(key).is_boolean()) fail(key, "expected true or false, got " + shown(at(key)));
  return at(key).get<bool>();
}

bool ResultObject::is_null(const char* key) const { return at(key).is_null(); }

std::string ResultObject::text(const char* key) const {
  if (!at(key).is_string()) fail(key, "expected text, got " + shown(at(key)));
  return at(key).get<std::string>();
}

std::vector<double> ResultObject::numbers_or_nan(const char* key) const {
  const json& list = at(key);
  if (!list.is_array()) fail(key, "expected a list of numbers, got " + shown(list));
  std::vector<double> out;
  out.reserve(list.size());
  for (const json& item : list) out.push_back(to_number(item, key, true));
  return out;
}

std::vector<std::vector<double>> ResultObject::tables_or_nan(const char* key) const {
  const json& list = at(key);
  if (!list.is_array()) fail(key, "expected a list of rows, got " + shown(list));
  std::vector<std::vector<double>> rows;
  for (const json& item : list) {
    if (!item.is_array()) fail(key, "expected rows of numbers, got " + shown(item));
    std::vector<double>& row = rows.emplace_back();
    for (const json& number : item) row.push_back(to_number(number, key, true));
  }
  return rows;
}

std::vector<int> ResultObject::integers(const char* key) const {
  const json& list = at(key);
  if (!list.is_array()) fail(key, "expected a list of integers, got " + shown(list));
  std::vector<int> out;
  out.reserve(list.size());
  for (const json& item : list) {
    const bool fits =
        item.is_number_integer() && item >= 0 && item <= std::numeric_limits<int>::max();
    if (!fits) fail(key, "expected a list of integers, found " + shown(item));
    out.push_back(item.get<int>());
  }
  return out;
}

std::vector<std::string> ResultObject::texts(const char* key) const {
  const json& list = at(key);
  if (!list.is_array()) fail(key, "expected a list of texts, got " + shown(list));
  std::vector<std::string> out;
  for (const json& item : list) {
    if (!item.is_string()) fail(key, "expected a list of texts, found " + shown(item));
    out.push_back(item.get<std::string>());
  }
  return out;
}

ResultObject ResultObject::object(const char* key) const {
  return {at(key), where_ + (where_.ends_with(':') ? " " : ".") + key};
}

std::vector<ResultObject> ResultObject::objects(const char* key) const {
  const json& list = at(key);
  if (!list.is_array()) fail(key, "expected a list of objects, got " + shown(list));
  std::vector<ResultObject> out;
  for (const json& item : list) {
    out.emplace_back(item, where_ + " " + key + "." + std::to_string(out.size()));
  }
  return out;
}

std::vector<std::string> ResultObject::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : value_->items()) out.push_back(key);
  seen_.insert(out.begin(), out.end());
  return out;
}

void ResultObject::finish() const {
  for (const auto& [key, value] : value_->items()) {
    if (!seen_.contains(key)) fail(key.substr(0, 60), "is not a key of this format");
  }
}

json read_json_file(const std::filesystem::path& file) {
  const std::string text = base::read_file(file, kMaxBytes);
  std::vector<std::set<std::string>> open;  // keys of the objects around the current place
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) throw base::IoError(file.string() + ": nested too deeply");
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key &&
        !open.back().insert(parsed.get<std::string>()).second) {
      throw base::IoError(file.string() + ": the key " + parsed.dump() + " is given twice");
    }
    return true;
  };
  json value;
  try {
    value = json::parse(text, check);
  } catch (const json::exception& error) {
    throw base::IoError(file.string() + ": is not valid JSON: " + error.what());
  }
  const ResultObject object(value, file.string() + ":");
  const std::int64_t version = object.integer("version", 1, std::numeric_limits<int>::max());
  if (version != kVersion) {
    object.fail("version", "is " + std::to_string(version) + "; this build reads version " +
                               std::to_string(kVersion));
  }
  return value;
}

void write_json_file(const std::filesystem::path& file, const json& value) {
  base::write_file_atomically(file, value.dump(2) + "\n");
}

}  // namespace dgap::schemas
