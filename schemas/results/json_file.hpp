#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// Strict reading of the small JSON files of a run directory. Every error is an IoError that names
/// the file and the path of the key.
namespace dgap::schemas {

/// An object that checks what it gives and that nothing is left over.
class ResultObject {
 public:
  /// `where`: "file: key.path" or "file:", for messages. `value` must outlive this.
  ResultObject(const nlohmann::json& value, std::string where);

  double number(const char* key) const;
  double number_or_nan(const char* key) const;                   // null is NaN
  std::optional<double> optional_number(const char* key) const;  // null is none
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const;
  bool boolean(const char* key) const;
  bool is_null(const char* key) const;
  std::string text(const char* key) const;
  std::vector<double> numbers_or_nan(const char* key) const;
  std::vector<std::vector<double>> tables_or_nan(const char* key) const;  // rows of numbers
  std::vector<int> integers(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  ResultObject object(const char* key) const;
  std::vector<ResultObject> objects(const char* key) const;  // a list of them
  std::vector<std::string> keys() const;                     // consumes all

  /// IoError when a key was not asked for.
  void finish() const;
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  const nlohmann::json& at(const char* key) const;
  double to_number(const nlohmann::json& value, const std::string& key, bool null_allowed) const;

  const nlohmann::json* value_;
  std::string where_;
  mutable std::set<std::string, std::less<>> seen_;
};

/// Parses a whole file: at most 64 MiB, 32 levels, no duplicate keys, `version` = 1.
nlohmann::json read_json_file(const std::filesystem::path& file);

/// Indented by two spaces, keys in order, numbers that read back as the same, non-finite as null.
void write_json_file(const std::filesystem::path& file, const nlohmann::json& value);

}  // namespace dgap::schemas
