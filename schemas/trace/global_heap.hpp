#pragma once
#include <filesystem>

namespace dgap::schemas::hdf5 {

/// Variable-length texts lie in "global heaps", which carry no checksum and whose sizes HDF5 1.10
/// believes. Walks all heaps of a file: IoError when an object runs out of its heap. Private to
/// schemas/trace/.
void check_global_heaps(const std::filesystem::path& path);

}  // namespace dgap::schemas::hdf5
