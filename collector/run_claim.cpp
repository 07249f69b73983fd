#include "collector/run_claim.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::collector {
namespace {

std::string holder() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

}  // namespace

RunClaim::RunClaim(const std::filesystem::path& traces, base::Progress& progress) {
  const std::filesystem::path path = traces / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) base::throw_errno(path.string(), "cannot be created");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    exclusive_ = true;
    const std::string name = holder();
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, name.data(), name.size(), 0) < 0) {
      progress.warn(path.string() + ": the holder's name cannot be written");
    }
    return;
  }
  const bool held = errno == EWOULDBLOCK;
  const std::string reason = std::string(path) + ": cannot be locked";
  if (held) {
    ::close(fd_);
    throw base::FailedError(traces.string() + ": is being written by " +
                            base::read_file(path, 4096) + "; wait for it, or use another run.name");
  }
  progress.warn(reason +
                ": the file system has no locks; see that no other process collects into " +
                traces.string());
}

RunClaim::~RunClaim() { ::close(fd_); }

}  // namespace dgap::collector
