#include "schemas/bundle/strict_json.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::schemas {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string range(const std::string& what, const std::string& low, const std::string& high) {
  return "expected " + what + " from " + low + " to " + high;
}

/// The first key that one object of `text` (valid JSON) has twice.
std::string repeated_key(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string repeated;
  const auto collect = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second && repeated.empty()) {
      repeated = shown(parsed);
    }
    return true;
  };
  [[maybe_unused]] const json value = json::parse(text, collect);
  return repeated;
}

}  // namespace

json parse_json_object(std::string_view text, const std::string& file, std::size_t depth) {
  std::vector<std::size_t> keys;  // how many were read of the objects that are open
  bool repeated = false;
  const auto check = [&](int level, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) &&
        static_cast<std::size_t>(level) >= depth) {
      throw base::IoError(file + ": is nested more than " + std::to_string(depth) + " deep");
    }
    if (event == Event::object_start) keys.push_back(0);
    if (event == Event::key) ++keys.back();
    if (event == Event::object_end) {
      repeated = repeated || parsed.size() != keys.back();
      keys.pop_back();
    }
    return true;
  };
  json value;
  try {
    value = json::parse(text, check);
    if (repeated) throw base::IoError(file + ": has the key " + repeated_key(text) + " twice");
  } catch (const json::exception& error) {
    throw base::IoError(file + ": is not valid JSON: " + std::string(error.what()).substr(0, 200));
  }
  if (!value.is_object()) throw base::IoError(file + ": does not hold a JSON object");
  return value;
}

JsonObject::JsonObject(const json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {
  if (!value.is_object()) {
    throw base::IoError(file_ + ": " + path_ + ": is " + shown(value) + "; expected an object");
  }
}

void JsonObject::fail(std::string_view key, const std::string& problem) const {
  throw base::IoError(file_ + ": " + path_ + (path_.empty() ? "" : ".") + std::string(key) + ": " +
                      problem);
}

const json& JsonObject::any(std::string_view key) {
  seen_.emplace(key);
  const auto found = value_->find(key);
  if (found == value_->end()) fail(key, "is missing");
  return *found;
}

std::string JsonObject::text(std::string_view key, std::size_t max_size) {
  const json& value = any(key);
  if (!value.is_string()) fail(key, "is " + shown(value) + "; expected a text");
  auto text = value.get<std::string>();
  if (text.size() > max_size) {
    fail(key, "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_size) +
                  " are accepted");
  }
  return text;
}

std::string JsonObject::choice(std::string_view key,
                               std::initializer_list<std::string_view> allowed) {
  std::string value = text(key);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    fail(key, "is \"" + value + "\"; known are " +
                  base::join(std::span(allowed.begin(), allowed.size())));
  }
  return value;
}

std::string JsonObject::sha256(std::string_view key) {
  std::string value = text(key);
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (value.size() != 64 || !std::all_of(value.begin(), value.end(), is_hex)) {
    fail(key, "is \"" + value.substr(0, 80) + "\"; expected 64 lower-case hexadecimal digits");
  }
  return value;
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const json& value = any(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    fail(key, "is " + shown(value) + "; " +
                  range("an integer", std::to_string(low), std::to_string(high)));
  }
  return value.get<std::int64_t>();
}

double JsonObject::real(std::string_view key, double low, double high) {
  const std::optional<double> value = real_or_null(key, low, high);
  if (!value) {
    fail(key, "is null, which stands for a number that is not finite; " +
                  range("a number", base::number(low), base::number(high)));
  }
  return *value;
}

std::optional<double> JsonObject::real_or_null(std::string_view key, double low, double high) {
  const json& value = any(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    fail(key,
         "is " + shown(value) + "; " + range("a number", base::number(low), base::number(high)));
  }
  return value.get<double>();
}

bool JsonObject::boolean(std::string_view key) {
  const json& value = any(key);
  if (!value.is_boolean()) fail(key, "is " + shown(value) + "; expected true or false");
  return value.get<bool>();
}

std::vector<std::string> JsonObject::texts(std::string_view key, std::size_t max_count) {
  const json& value = any(key);
  if (!value.is_array() || value.size() > max_count) {
    fail(key, "is " + shown(value) + "; expected an array of at most " + std::to_string(max_count) +
                  " texts");
  }
  std::vector<std::string> texts;
  for (const json& item : value) {
    if (!item.is_string()) fail(key, "holds " + shown(item) + "; expected texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

JsonObject JsonObject::object(std::string_view key) {
  return {any(key), file_, path_ + (path_.empty() ? "" : ".") + std::string(key)};
}

void JsonObject::refuse_others() const {
  for (const auto& [key, value] : value_->items()) {
    if (seen_.contains(key)) continue;
    const std::vector<std::string_view> known(seen_.begin(), seen_.end());
    const std::string_view near = base::nearest(key, known);
    fail(key.substr(0, 80),
         "is unknown" + (near.empty() ? std::string() : "; is " + std::string(near) + " meant?"));
  }
}

}  // namespace dgap::schemas
