#include "schemas/trace/index.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "schemas/trace/reader.hpp"

namespace dgap::schemas::trace {
namespace {

constexpr std::uint64_t kMostIndexBytes = std::uint64_t{1} << 26;

IndexEntry parse_entry(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object() || !object.contains("file") || !object["file"].is_string() ||
      !object.contains("sha256") || !object["sha256"].is_string() || !object.contains("steps") ||
      !object["steps"].is_number_integer()) {
    throw base::IoError(where + ": expected an object with file, steps and sha256");
  }
  IndexEntry entry{object["file"], object["steps"], object["sha256"]};
  const bool plain = !entry.file.empty() && entry.file.find('/') == std::string::npos &&
                     entry.file.find('\0') == std::string::npos && entry.file != "." &&
                     entry.file != "..";
  if (!plain)
    throw base::IoError(where + ".file: \"" + entry.file +
                        "\" is not the name of a file in this folder");
  return entry;
}

}  // namespace

std::vector<IndexEntry> read_index(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kIndexFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw base::IoError(path.string() +
                        ": is missing: the traces are not finished; run `dgap collect` first");
  }
  const nlohmann::json index =
      nlohmann::json::parse(base::read_file(path, kMostIndexBytes), nullptr, false);
  if (!index.is_object() || index.value("format", nlohmann::json()) != kIndexFormat ||
      !index.contains("version") || !index["version"].is_number_integer() ||
      !index.contains("parts") || !index["parts"].is_array()) {
    throw base::IoError(path.string() + ": is not an index of traces (format, version, parts)");
  }
  if (index["version"] != kIndexVersion) {
    throw base::IoError(path.string() + ": has version " + index["version"].dump() +
                        ", and this program reads " + std::to_string(kIndexVersion));
  }
  std::vector<IndexEntry> entries;
  for (const nlohmann::json& part : index["parts"]) {
    entries.push_back(
        parse_entry(part, path.string() + ": parts[" + std::to_string(entries.size()) + "]"));
  }
  if (entries.empty()) throw base::IoError(path.string() + ": lists no parts");
  return entries;
}

}  // namespace dgap::schemas::trace

namespace dgap::schemas {

void write_trace_index(const std::filesystem::path& directory,
                       const std::vector<std::string>& part_files) {
  nlohmann::ordered_json index{{"format", trace::kIndexFormat}, {"version", trace::kIndexVersion}};
  index["parts"] = nlohmann::ordered_json::array();
  for (const std::string& file : part_files) {
    const std::filesystem::path path = directory / file;
    index["parts"].push_back({{"file", file},
                              {"steps", trace::read_summary(path).steps},
                              {"sha256", base::sha256_of_file(path)}});
  }
  base::write_file_atomically(directory / trace::kIndexFile, index.dump(2) + "\n");
}

}  // namespace dgap::schemas
