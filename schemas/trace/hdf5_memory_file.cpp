#include "schemas/trace/hdf5_memory_file.hpp"

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace dgap::schemas::hdf5 {
namespace {

constexpr std::size_t kGrowth = std::size_t{1} << 22;

void* allocate(std::size_t bytes, H5FD_file_image_op_t, void*) { return std::malloc(bytes); }

void* copy(void* to, const void* from, std::size_t bytes, H5FD_file_image_op_t, void*) {
  return std::memcpy(to, from, bytes);
}

void* reallocate(void* bytes, std::size_t size, H5FD_file_image_op_t, void* data) {
  void* const moved = std::realloc(bytes, size);
  if (moved != nullptr) *static_cast<MemoryFile::Image*>(data) = {moved, size};
  return moved;
}

herr_t release(void* bytes, H5FD_file_image_op_t operation, void*) {
  if (operation != H5FD_FILE_IMAGE_OP_FILE_CLOSE) std::free(bytes);  // else it is ours now
  return 0;
}

void* share(void* data) { return data; }
herr_t unshare(void*) { return 0; }

Handle create(const std::string& where, MemoryFile::Image& image) {
  const Handle access = access_properties(where);
  check(H5Pset_fapl_core(access.get(), kGrowth, false), where, "cannot be prepared");
  H5FD_file_image_callbacks_t callbacks{allocate, copy,    reallocate, release,
                                        share,    unshare, &image};
  check(H5Pset_file_image_callbacks(access.get(), &callbacks), where, "cannot be prepared");
  // The newest layout of 1.10: every piece of metadata carries a checksum.
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), where,
        "cannot be prepared");
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, where, "cannot be prepared");
  check(H5Pset_obj_track_times(creation.get(), false), where, "cannot be prepared");
  return {H5Fcreate(where.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose, where,
          "cannot be made"};
}

/// Where the file ends, from its superblock (version 2 and 3, 8-byte addresses): allocation runs
/// ahead.
std::uint64_t end_of_file(const MemoryFile::Image& image) {
  constexpr std::size_t kEndOfFileAddress = 28;
  std::uint64_t end = 0;
  for (int i = 7; i >= 0; --i) {
    end = end << 8 | static_cast<const unsigned char*>(image.bytes)[kEndOfFileAddress + i];
  }
  return end;
}

}  // namespace

MemoryFile::MemoryFile(const std::string& where)
    : where_(where), image_(std::make_unique<Image>()), file_(create(where, *image_)) {}

MemoryFile::~MemoryFile() {
  if (file_.get() >= 0) file_.close();
  std::free(image_->bytes);
}

std::span<const unsigned char> MemoryFile::close() {
  check(file_.close(), where_, "cannot be completed");
  const std::uint64_t end = image_->bytes == nullptr ? 0 : end_of_file(*image_);
  if (end == 0 || end > image_->allocated)
    throw base::FailedError(where_ + ": cannot be completed");
  return {static_cast<const unsigned char*>(image_->bytes), static_cast<std::size_t>(end)};
}

}  // namespace dgap::schemas::hdf5
