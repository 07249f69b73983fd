#include "schemas/trace/global_heap.hpp"

#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"

// HDF5 File Format Specification 3.0, III.E: a collection is "GCOL", a version, three zeros and its
// size; then objects of index, references, four zeros, size and data, padded to 8 bytes. Index 0 is
// the free space at the end.
namespace dgap::schemas::hdf5 {
namespace {

constexpr std::uint64_t kHeaderBytes = 16;

std::uint64_t number_at(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

bool is_sound(std::string_view heap) {
  std::uint64_t at = kHeaderBytes;
  while (heap.size() - at >= kHeaderBytes) {
    const std::uint64_t index = number_at(heap, at, 2), size = number_at(heap, at + 8, 8);
    const std::uint64_t left = heap.size() - at;
    if (size > left) return false;
    const std::uint64_t whole = index == 0 ? size : kHeaderBytes + (size + 7) / 8 * 8;
    if (whole < kHeaderBytes || whole > left) return false;
    at += whole;
  }
  return true;
}

}  // namespace

void check_global_heaps(const std::filesystem::path& path) {
  using namespace std::string_view_literals;
  const base::MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  constexpr std::string_view kStart = "GCOL\1\0\0\0"sv;
  for (std::size_t at = bytes.find(kStart); at != bytes.npos; at = bytes.find(kStart, at + 1)) {
    const std::uint64_t left = bytes.size() - at;
    const std::uint64_t size = left < kHeaderBytes ? 0 : number_at(bytes, at + 8, 8);
    if (size < kHeaderBytes || size > left || !is_sound(bytes.substr(at, size))) {
      throw base::IoError(path.string() + ": variable-length texts are damaged (heap at byte " +
                          std::to_string(at) + ")");
    }
  }
}

}  // namespace dgap::schemas::hdf5
