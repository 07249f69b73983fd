#include "app/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/messages.hpp"
#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::app {

RunDirectory::RunDirectory(const schemas::Config& config) : path_(config.run_directory()) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw base::IoError(path_.string() + ": cannot be made: " + error.message());
  const std::filesystem::path file = path_ / ".lock";
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) base::throw_errno(file.string(), "cannot be opened");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason == EWOULDBLOCK) {
      ::close(lock_);
      throw base::FailedError(path_.string() +
                              ": another dgap process works in this run directory");
    }
    say_warning(path_.string() + ": cannot be locked (" + std::strerror(reason) +
                "): see that no other process works in it");
  }
  base::write_file_atomically(path_ / "config.resolved.yaml", schemas::to_yaml(config));
}

RunDirectory::~RunDirectory() {
  ::close(lock_);  // which releases the lock; the file stays, so that no other process locks a
                   // removed one
}

}  // namespace dgap::app
