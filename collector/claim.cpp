#include "collector/claim.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

namespace dgap::collector {

Claim::Claim(const std::filesystem::path& folder)
    : descriptor_(::open((folder / ".claim").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) base::throw_errno((folder / ".claim").string(), "cannot be created");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  ::close(descriptor_);
  if (reason == EWOULDBLOCK) {
    throw base::FailedError(folder.string() +
                            ": another process is collecting into this run directory; wait for it, "
                            "or give this run another run.name or run.dir");
  }
  errno = reason;
  base::throw_errno((folder / ".claim").string(),
                    "cannot be locked (a file system without flock?)");
}

Claim::~Claim() { ::close(descriptor_); }

}  // namespace dgap::collector
