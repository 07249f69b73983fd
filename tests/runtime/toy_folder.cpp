#include <stdlib.h>

#include "tests/runtime/toy_bundle.hpp"

namespace dgap::test {

void write_toy_bundle(const std::filesystem::path& directory, const schemas::Bundle& bundle) {
  schemas::write_bundle(directory, bundle, R"({"precisions": {}})", "# Toy bundle\n",
                        R"({"host": "test"})");
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dgap-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace dgap::test
