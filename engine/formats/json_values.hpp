#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {

/// A JSON value in an error message.
std::string shown(const nlohmann::json& value);

/// An object of optional members: null counts as absent, and it is remembered which were asked for.
/// Errors are IoErrors that name file, key, what was found and what is expected.
class JsonValues {
 public:
  JsonValues(const nlohmann::json& value, const std::string& file, const std::string& path)
      : object_(value, file, path), file_(file) {}

  const nlohmann::json& value() const { return object_.value(); }
  const std::string& file() const { return file_; }
  bool asked_for(const std::string& key) const { return asked_.contains(key); }

  bool contains(std::string_view key) {
    asked_.emplace(key);
    return value().contains(key);
  }
  bool has(std::string_view key) { return contains(key) && !value().find(key)->is_null(); }

  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) {
    asked_.emplace(key);
    return object_.integer(key, low, high);
  }
  std::int64_t positive(std::string_view key) {
    return integer(key, 1, std::numeric_limits<std::int32_t>::max());
  }
  double positive_real(std::string_view key) {
    asked_.emplace(key);
    return object_.real(key, std::numeric_limits<float>::min(), std::numeric_limits<float>::max());
  }
  bool boolean(std::string_view key, bool otherwise) {
    return has(key) ? object_.boolean(key) : otherwise;
  }
  std::string text(std::string_view key, std::string_view otherwise) {
    return has(key) ? object_.text(key) : std::string(otherwise);
  }
  std::vector<std::string> texts(std::string_view key) {
    asked_.emplace(key);
    return object_.texts(key, 4096);
  }
  JsonValues object(std::string_view key) {
    asked_.emplace(key);
    return {object_.any(key), file_, std::string(key)};
  }
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const {
    object_.fail(key, problem);
  }

 private:
  schemas::JsonObject object_;
  std::string file_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace dgap::engine
