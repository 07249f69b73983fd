#include "schemas/trace/hdf5_raii.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace dgap::schemas::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t collect_description(unsigned, const H5E_error2_t* error, void* data) {
  auto& texts = *static_cast<std::vector<std::string>*>(data);
  if (error->desc != nullptr && *error->desc != '\0') texts.emplace_back(error->desc);
  return 0;
}

/// The innermost description: the cause ("unable to lock file, errno = 11, ...").
std::string cause() {
  std::vector<std::string> texts;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_description, &texts);
  H5Eclear2(H5E_DEFAULT);
  return texts.empty() ? "HDF5 gives no reason" : texts.front();
}

/// Type of the file system that holds `path`, from the longest mount point above it.
std::string file_system_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::weakly_canonical(path, ignored).string();
  std::ifstream mounts("/proc/self/mounts");
  std::string line, best = "unknown";
  std::size_t best_length = 0;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string device, point, type;
    fields >> device >> point >> type;
    const bool above =
        absolute.starts_with(point) &&
        (point == "/" || absolute.size() == point.size() || absolute[point.size()] == '/');
    if (above && point.size() >= best_length) best = type, best_length = point.size();
  }
  return best;
}

bool is_lock_failure(std::string_view text) {
  return text.find("lock") != std::string_view::npos &&
         (text.find("errno = 11,") != std::string_view::npos ||
          text.find("errno = 37,") != std::string_view::npos);
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path) {
  const std::string reason = cause();
  std::string message = path.string() + ": cannot be opened as HDF5: " + reason;
  if (is_lock_failure(reason)) {
    message += "; the file is locked by another process, or its file system (" +
               file_system_of(path) +
               ") has no locks: then set HDF5_USE_FILE_LOCKING=FALSE in the environment";
  }
  throw base::IoError(message);
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  // Files are closed by their owners. What HDF5 leaves open inside after it met a damaged file
  // would only make it complain at exit.
  [[maybe_unused]] static const herr_t once = H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_); }

void fail(const std::string& where, const std::string& what) {
  throw base::IoError(where + ": " + what + ": " + cause());
}

Handle access_properties(const std::string& where) {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, where, "cannot be prepared");
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), where, "cannot be prepared");
  return access;
}

Handle open_file(const std::filesystem::path& path) {
  const Handle access = access_properties(path.string());
  const char* variable = std::getenv("HDF5_USE_FILE_LOCKING");
  const std::string_view wish = variable == nullptr ? "BEST_EFFORT" : variable;
  const bool locking = wish != "FALSE" && wish != "0";
  const bool may_be_missing = wish != "TRUE" && wish != "1";
  check(H5Pset_file_locking(access.get(), locking, may_be_missing), path.string(),
        "cannot be prepared");
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id < 0) fail_to_open(path);
  return {id, H5Fclose, path.string(), ""};
}

hid_t TypeOf<std::uint16_t>::memory() {
  static const hid_t type = [] {
    const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(half, 15, 10, 5, 0, 10);  // sign, exponent, its bits, mantissa, its bits
    H5Tset_size(half, 2);
    H5Tset_ebias(half, 15);
    return half;
  }();
  return type;
}

}  // namespace dgap::schemas::hdf5
