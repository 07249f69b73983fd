#include "schemas/bundle/bundle_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/sha256.hpp"

namespace dgap::schemas {
namespace {

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_open(const std::string& shown) {
  if (errno == ELOOP) {
    throw base::IoError(shown +
                        ": is a symbolic link; a bundle holds plain files (copy it with cp -L)");
  }
  base::throw_errno(shown, "cannot be opened");
}

/// Opens part by part, so that no folder on the way can be a link either.
OpenFile open_inside(int folder, std::string_view name, const std::string& shown) {
  OpenFile current(-1);
  int at = folder;
  for (;;) {
    const std::size_t slash = name.find('/');
    const bool last = slash == std::string_view::npos;
    const std::string part(name.substr(0, slash));
    // O_NONBLOCK: a pipe must not make us wait.
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY);
    OpenFile next(::openat(at, part.c_str(), flags));
    if (next.get() < 0) fail_open(shown);
    current = std::move(next);
    at = current.get();
    if (last) return current;
    name.remove_prefix(slash + 1);
  }
}

std::uint64_t regular_size(const OpenFile& file, const std::string& shown) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) base::throw_errno(shown, "cannot be examined");
  if (!S_ISREG(info.st_mode)) throw base::IoError(shown + ": is not a regular file");
  return static_cast<std::uint64_t>(info.st_size);
}

/// Fills `bytes` from where the file stands; how many there were.
std::size_t read_some(const OpenFile& file, std::span<char> bytes, const std::string& shown) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) base::throw_errno(shown, "cannot be read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

BundleFolder::BundleFolder(const std::filesystem::path& directory)
    : path_(directory), fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) base::throw_errno(directory.string(), "cannot be opened as a bundle's directory");
}

BundleFolder::~BundleFolder() { ::close(fd_); }

std::uint64_t BundleFolder::size(const std::string& name) const {
  return regular_size(open_inside(fd_, name, shown(name)), shown(name));
}

std::string BundleFolder::read(const std::string& name, std::uint64_t limit) const {
  const std::uint64_t found = size(name);
  if (found > limit) {
    throw base::IoError(shown(name) + ": is " + std::to_string(found) + " bytes long; at most " +
                        std::to_string(limit) + " are accepted");
  }
  return read_start(name, limit);
}

std::string BundleFolder::read_start(const std::string& name, std::uint64_t limit) const {
  const OpenFile file = open_inside(fd_, name, shown(name));
  std::string bytes(std::min(regular_size(file, shown(name)), limit), '\0');
  bytes.resize(read_some(file, bytes, shown(name)));
  return bytes;
}

std::string BundleFolder::sha256(const std::string& name) const {
  const OpenFile file = open_inside(fd_, name, shown(name));
  regular_size(file, shown(name));
  base::Sha256 hash;
  std::string chunk(std::size_t{1} << 20, '\0');
  while (const std::size_t count = read_some(file, chunk, shown(name))) {
    hash.update(std::string_view(chunk).substr(0, count));
  }
  return hash.hex();
}

}  // namespace dgap::schemas
