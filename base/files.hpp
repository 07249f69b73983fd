#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dgap::base {

/// Closes a file descriptor; a negative one is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Whole file as bytes. IoError when it cannot be read or is larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path,
                      std::uint64_t limit = std::uint64_t{1} << 32);

/// `length` bytes from `offset` on. IoError when the file cannot be read or ends before.
std::string read_range(const std::filesystem::path& path, std::uint64_t offset,
                       std::uint64_t length);

/// Writes `path` so that it is either the old file or the whole new one, also after a crash:
/// a temporary file in the same folder, fsync, rename, fsync of the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// fsync of a file or folder that was written by other means (HDF5).
void sync_path(const std::filesystem::path& path);

/// rename + fsync of the folder.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// A file mapped read-only. The mapping lives as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dgap::base
