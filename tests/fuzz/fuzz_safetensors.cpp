#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "schemas/bundle/bundle.hpp"

// Any bytes are tensors or an IoError; what was accepted is encoded and decoded again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dgap::schemas;
  try {
    const Tensors tensors = decode_safetensors({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (decode_safetensors(encode_safetensors(tensors), "again").size() != tensors.size())
      std::abort();
  } catch (const dgap::base::IoError&) {
  }
  return 0;
}
