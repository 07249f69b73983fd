// probe_dequantize TYPE INPUT OUTPUT: blocks of a GGUF tensor type (by its number) to f32.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/files.hpp"
#include "engine/formats/dequantize.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const dgap::engine::GgufTensorType type{static_cast<std::uint32_t>(std::atoi(argv[1]))};
  const std::string blocks = dgap::base::read_file(argv[2]);
  const dgap::engine::GgufBlock& format = dgap::engine::gguf_block(type);
  const auto elements = static_cast<std::int64_t>(blocks.size()) / format.bytes * format.elements;
  std::vector<float> values(static_cast<std::size_t>(elements));
  dgap::engine::dequantize_row(type, reinterpret_cast<const std::byte*>(blocks.data()), elements,
                               values.data());
  std::ofstream(argv[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  return 0;
}
