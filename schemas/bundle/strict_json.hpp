#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

/// JSON from a file that may be damaged or made to do harm.
namespace dgap::schemas {

/// Parses `text`: one JSON object, nested at most `depth` deep, no duplicate keys, valid UTF-8, no
/// number beyond the range of a double, at most `values` keys and values. IoError naming `file` and
/// what was found. The parser does not recurse; memory stays in proportion to the text, whose size
/// the caller bounds, and to the values: an empty object of two bytes takes some eighty.
nlohmann::json parse_json_object(std::string_view text, const std::string& file, std::size_t depth,
                                 std::size_t values = std::numeric_limits<std::size_t>::max());

/// An object whose members are taken one by one, each with its type and range. Every error is an
/// IoError that names file, key path, what was found and what is expected.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string file, std::string path);

  const nlohmann::json& any(std::string_view key);
  std::string text(std::string_view key, std::size_t max_size = 4096);
  /// Text that is one of `allowed`.
  std::string choice(std::string_view key, std::initializer_list<std::string_view> allowed);
  std::string sha256(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  double real(std::string_view key, double low, double high);
  std::optional<double> real_or_null(std::string_view key, double low, double high);
  bool boolean(std::string_view key);
  std::vector<std::string> texts(std::string_view key, std::size_t max_count);
  JsonObject object(std::string_view key);

  const nlohmann::json& value() const { return *value_; }
  /// Refuses members that were never asked for, naming the nearest that could have been.
  void refuse_others() const;
  /// IoError "<file>: <path>.<key>: <problem>".
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace dgap::schemas
