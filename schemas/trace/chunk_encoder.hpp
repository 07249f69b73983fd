#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace dgap::schemas::hdf5 {

/// One chunk as HDF5's filters shuffle, deflate and fletcher32 would leave it, in this order. Ours
/// because HDF5 filters one chunk at a time. `bytes` may be short of a whole chunk: zeros fill it.
/// Private to schemas/trace/.
std::vector<unsigned char> encode_chunk(std::span<const unsigned char> bytes,
                                        std::size_t chunk_bytes, std::size_t value_bytes,
                                        int deflate_level);

}  // namespace dgap::schemas::hdf5
