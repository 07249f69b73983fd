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

std::string not_json(const std::string& file, const std::string& why) {
  return file + ": is not valid JSON: " + why.substr(0, 200);
}

/// Walks through a text without keeping its values; IoError for what is not JSON, too deep or too
/// much. (The library's own callback looks through the whole parent after every object.)
class Walk : public nlohmann::json_sax<json> {
 public:
  Walk(const std::string& file, std::size_t depth, std::size_t values)
      : file_(file), depth_(depth), values_(values) {}
  std::size_t keys() const { return keys_; }

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(std::int64_t) override { return count(); }
  bool number_unsigned(std::uint64_t) override { return count(); }
  bool number_float(double, const std::string&) override { return count(); }
  bool string(std::string&) override { return count(); }
  bool binary(json::binary_t&) override { return count(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string&) override {
    ++keys_;
    return count();
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw base::IoError(not_json(file_, error.what()));
  }

 private:
  bool count() {
    if (++count_ <= values_) return true;
    throw base::IoError(file_ + ": holds more than " + std::to_string(values_) + " values");
  }
  bool open() {
    if (++open_ <= depth_) return count();
    throw base::IoError(file_ + ": is nested more than " + std::to_string(depth_) + " deep");
  }
  bool close() {
    --open_;
    return true;
  }

  const std::string& file_;
  std::size_t depth_, values_, open_ = 0, count_ = 0, keys_ = 0;
};

/// The first key that one object has twice.
class RepeatedKey : public Walk {
 public:
  using Walk::Walk;
  const std::string& found() const { return found_; }

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(std::string& key) override {
    if (keys_.back().insert(key).second) return true;
    found_ = shown(json(key));
    return false;  // stop
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string found_;
};

/// Of all objects in `value`, whose depth has been checked.
std::size_t key_count(const json& value) {
  std::size_t count = value.is_object() ? value.size() : 0;
  if (!value.is_structured()) return 0;
  for (const json& item : value) count += key_count(item);
  return count;
}

}  // namespace

json parse_json_object(std::string_view text, const std::string& file, std::size_t depth,
                       std::size_t values) {
  Walk walk(file, depth, values);
  json::sax_parse(text, &walk);
  json value = json::parse(text);
  if (key_count(value) != walk.keys()) {
    RepeatedKey repeated(file, depth, values);
    json::sax_parse(text, &repeated);
    throw base::IoError(file + ": has the key " + repeated.found() + " twice");
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
    const std::string_view near = base::nearest(key.substr(0, 80), known);
    fail(key.substr(0, 80),
         "is unknown" + (near.empty() ? std::string() : "; is " + std::string(near) + " meant?"));
  }
}

}  // namespace dgap::schemas
