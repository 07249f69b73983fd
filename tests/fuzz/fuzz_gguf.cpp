// Any bytes are a model, whose tensors can then be read, or an error of the toolkit.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "engine/formats/open_weights.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A file in memory, since the reader maps files.
  static const int fd = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  try {
    const auto source = dgap::engine::open_weights(path, "gguf");
    dgap::engine::check_weights(*source);
  } catch (const dgap::base::Error&) {
  }
  return 0;
}
