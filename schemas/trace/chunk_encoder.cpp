#include "schemas/trace/chunk_encoder.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"

namespace dgap::schemas::hdf5 {
namespace {

/// First bytes of all values, then second bytes, and so on.
std::vector<unsigned char> shuffle(std::span<const unsigned char> bytes, std::size_t chunk_bytes,
                                   std::size_t value_bytes) {
  std::vector<unsigned char> shuffled(chunk_bytes);
  const std::size_t values = bytes.size() / value_bytes, stride = chunk_bytes / value_bytes;
  for (std::size_t plane = 0; plane < value_bytes; ++plane) {
    unsigned char* const to = shuffled.data() + plane * stride;
    const unsigned char* const from = bytes.data() + plane;
    for (std::size_t i = 0; i < values; ++i) to[i] = from[i * value_bytes];
  }
  return shuffled;
}

/// Fletcher's checksum over big-endian 16-bit words, as HDF5 has it.
std::uint32_t fletcher32(std::span<const unsigned char> bytes) {
  constexpr std::size_t kMostWords = 360;  // so many sums fit into 32 bits
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffu) + (sum >> 16); };
  std::uint32_t sum1 = 0, sum2 = 0;
  const std::size_t words = bytes.size() / 2;
  for (std::size_t at = 0; at < words;) {
    for (const std::size_t end = std::min(words, at + kMostWords); at < end; ++at) {
      sum1 += static_cast<std::uint32_t>(bytes[2 * at] << 8 | bytes[2 * at + 1]);
      sum2 += sum1;
    }
    sum1 = fold(sum1), sum2 = fold(sum2);
  }
  if (bytes.size() % 2 != 0) {
    sum1 += static_cast<std::uint32_t>(bytes.back() << 8);
    sum2 += sum1;
    sum1 = fold(sum1), sum2 = fold(sum2);
  }
  return fold(sum2) << 16 | fold(sum1);
}

}  // namespace

std::vector<unsigned char> encode_chunk(std::span<const unsigned char> bytes,
                                        std::size_t chunk_bytes, std::size_t value_bytes,
                                        int deflate_level) {
  const std::vector<unsigned char> shuffled = shuffle(bytes, chunk_bytes, value_bytes);
  uLongf size = compressBound(static_cast<uLong>(chunk_bytes));
  std::vector<unsigned char> encoded(size + sizeof(std::uint32_t));
  if (compress2(encoded.data(), &size, shuffled.data(), static_cast<uLong>(chunk_bytes),
                deflate_level) != Z_OK) {
    throw base::FailedError("zlib could not deflate a chunk");
  }
  const std::uint32_t checksum = fletcher32(std::span(encoded).first(size));
  for (unsigned i = 0; i < sizeof checksum; ++i)
    encoded[size + i] = static_cast<unsigned char>(checksum >> 8 * i);
  encoded.resize(size + sizeof checksum);
  return encoded;
}

}  // namespace dgap::schemas::hdf5
