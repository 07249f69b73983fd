#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "schemas/bundle/manifest.hpp"

// Any bytes are a manifest or an IoError; a manifest that was accepted is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dgap::schemas;
  try {
    const Manifest manifest =
        parse_manifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
    parse_manifest(manifest_text(manifest.bundle, manifest.files), "written");
  } catch (const dgap::base::IoError&) {
  }
  return 0;
}
