#include "tests/runtime/toy_bundle.hpp"

namespace dgap::test {

void write_toy_bundle(const std::filesystem::path& directory, const schemas::Bundle& bundle) {
  schemas::write_bundle(directory, bundle, R"({"precisions": {}})", "# Toy bundle\n",
                        R"({"host": "test"})");
}

}  // namespace dgap::test
