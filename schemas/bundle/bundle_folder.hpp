#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace dgap::schemas {

/// A bundle's directory, held open: files are found inside it, links are never followed.
class BundleFolder {
 public:
  explicit BundleFolder(const std::filesystem::path& directory);
  ~BundleFolder();
  BundleFolder(const BundleFolder&) = delete;
  BundleFolder& operator=(const BundleFolder&) = delete;

  /// The bytes of a regular file of at most `limit` bytes; IoError otherwise. `name` is relative,
  /// its parts have been checked (FileEntry::path).
  std::string read(const std::string& name, std::uint64_t limit) const;
  /// The first bytes of a regular file, `limit` or as many as it has.
  std::string read_start(const std::string& name, std::uint64_t limit) const;
  /// SHA-256 of a regular file, in constant memory.
  std::string sha256(const std::string& name) const;
  /// Size of a regular file, without reading it.
  std::uint64_t size(const std::string& name) const;
  /// "<directory>/<name>", for messages.
  std::string shown(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace dgap::schemas
