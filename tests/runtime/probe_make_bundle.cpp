// probe_make_bundle DIRECTORY VOCABULARY WINDOW SEED: writes a toy bundle.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/runtime/toy_bundle.hpp"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    dgap::test::write_toy_bundle(
        argv[1], dgap::test::toy_context_bundle(std::atoll(argv[2]), std::atoi(argv[3]),
                                                static_cast<std::uint64_t>(std::atoll(argv[4]))));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
