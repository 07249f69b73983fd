#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace dgap::base {

void throw_errno(const std::string& path, const std::string& what) {
  throw IoError(path + ": " + what + ": " + std::generic_category().message(errno));
}

}  // namespace dgap::base
