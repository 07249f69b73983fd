#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Inputs that are whole folders: the files in a fixed order, each after its length (4 bytes,
/// little-endian); one of length 2^32 - 1 is not there, and the rest is the last.
namespace dgap::fuzz {

inline constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

inline std::string pack(const std::vector<std::optional<std::string>>& files) {
  std::string bytes;
  for (const std::optional<std::string>& file : files) {
    const std::uint32_t length = file ? static_cast<std::uint32_t>(file->size()) : kAbsent;
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += file.value_or("");
  }
  return bytes;
}

inline std::vector<std::optional<std::string>> unpack(std::string_view bytes, std::size_t count) {
  std::vector<std::optional<std::string>> files(count);
  for (std::optional<std::string>& file : files) {
    std::uint32_t length = kAbsent;
    if (bytes.size() >= sizeof length) {
      std::memcpy(&length, bytes.data(), sizeof length);
      bytes.remove_prefix(sizeof length);
    }
    if (length == kAbsent) continue;
    file = bytes.substr(0, length);
    bytes.remove_prefix(file->size());
  }
  return files;
}

/// In memory, and gone with the process.
class Folder {
 public:
  Folder() : path_("/dev/shm/dgap-fuzz-" + std::to_string(::getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }

  void put(const char* name, const std::optional<std::string>& bytes) const {
    std::filesystem::remove(path_ / name);
    if (!bytes) return;
    std::ofstream(path_ / name, std::ios::binary)
        .write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dgap::fuzz
