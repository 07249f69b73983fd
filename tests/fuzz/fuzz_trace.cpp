// Any bytes are a trace or an error of the toolkit. Start from a folder with real parts: the
// checksums of HDF5's metadata keep random bytes out.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "schemas/trace/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  try {
    dgap::schemas::read_trace_part(path, {{}, true, true, true});
  } catch (const dgap::base::Error&) {
  }
  return 0;
}
