#include "base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace dgap::base {
namespace {

std::uint64_t regular_file_size(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_errno(path, "cannot be examined");
  if (!S_ISREG(info.st_mode)) throw IoError(path + ": is not a regular file");
  return static_cast<std::uint64_t>(info.st_size);
}

/// Reads until `bytes` is full or the file ends; returns how many were read.
std::size_t read_up_to(int fd, std::string& bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(path, "cannot be read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno(path.string(), "cannot be opened");
  const std::uint64_t size = regular_file_size(fd.get(), path.string());
  if (size > limit) {
    throw IoError(path.string() + ": is " + std::to_string(size) + " bytes long; at most " +
                  std::to_string(limit) + " are accepted here");
  }
  std::string text(size, '\0');
  text.resize(read_up_to(fd.get(), text, path.string()));
  return text;
}

std::string read_range(const std::filesystem::path& path, std::uint64_t offset,
                       std::uint64_t length) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno(path.string(), "cannot be opened");
  const std::uint64_t size = regular_file_size(fd.get(), path.string());
  if (offset > size || length > size - offset ||
      ::lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    throw IoError(path.string() + ": has " + std::to_string(size) + " bytes; " +
                  std::to_string(length) + " from " + std::to_string(offset) +
                  " on are needed: it has changed while it was being used");
  }
  std::string bytes(length, '\0');
  if (read_up_to(fd.get(), bytes, path.string()) != length)
    throw IoError(path.string() + ": has changed while it was being used");
  return bytes;
}

void sync_path(const std::filesystem::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno(path.string(), "cannot be opened");
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno(path.string(), "cannot be synced");
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_errno(to.string(), "cannot be renamed into place");
  sync_path(to.has_parent_path() ? to.parent_path() : std::filesystem::path("."));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};
  std::filesystem::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  {
    const Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) throw_errno(path.string(), "cannot be created");
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int saved = errno;
        ::unlink(temporary.c_str());
        errno = saved;
        throw_errno(path.string(), "cannot be written");
      }
      done += static_cast<std::size_t>(n);
    }
    if (::fsync(fd.get()) != 0) throw_errno(path.string(), "cannot be synced");
  }
  rename_durably(temporary, path);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno(path.string(), "cannot be opened");
  size_ = regular_file_size(fd.get(), path.string());
  if (size_ == 0) return;
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) throw_errno(path.string(), "cannot be mapped");
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace dgap::base
