#pragma once
#include <memory>
#include <span>
#include <string>

#include "schemas/trace/hdf5_raii.hpp"

namespace dgap::schemas::hdf5 {

/// A new file that HDF5 builds in memory. HDF5 1.10 crashes when a disk is full, so the bytes are
/// made first and written by ourselves. Private to schemas/trace/.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& where);
  ~MemoryFile();

  const Handle& root() const { return file_; }
  /// Closes the file: its bytes, valid as long as this object.
  std::span<const unsigned char> close();

  /// What HDF5 allocates; survives the closing of the file.
  struct Image {
    void* bytes = nullptr;
    std::size_t allocated = 0;
  };

 private:
  std::string where_;
  std::unique_ptr<Image> image_;
  Handle file_;
};

}  // namespace dgap::schemas::hdf5
