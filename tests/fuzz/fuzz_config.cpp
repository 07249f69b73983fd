// Any bytes are either a configuration, which then survives writing and reading, or a UsageError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "schemas/config/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dgap;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    // The first line, where it begins with '=', is an override.
    std::vector<std::string> overrides;
    std::string_view rest = text;
    if (text.substr(0, 1) == "=") {
      const std::size_t end = std::min(text.find('\n'), text.size());
      overrides.emplace_back(text.substr(1, end - 1));
      rest = text.substr(end);
    }
    const schemas::Config config = schemas::parse_config(rest, "fuzz.yaml", overrides);
    if (schemas::parse_config(schemas::to_yaml(config), "again.yaml") != config) std::abort();
  } catch (const base::UsageError&) {
  }
  return 0;
}
