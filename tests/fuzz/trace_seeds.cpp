#include "tests/fuzz/trace_seeds.hpp"

#include "base/files.hpp"
#include "tests/schemas/trace/synthetic_trace.hpp"

namespace dgap::fuzz {

std::vector<std::string> trace_seeds() {
  std::vector<std::string> seeds;
  for (const bool full : {false, true}) {
    testing::SyntheticTrace wish;
    wish.full = wish.with_hidden = full;
    wish.splits = {"train"};
    const testing::TemporaryFolder folder;
    schemas::write_trace_part(folder / "part.h5", testing::make_synthetic(wish));
    seeds.push_back(base::read_file(folder / "part.h5"));
  }
  return seeds;
}

}  // namespace dgap::fuzz
