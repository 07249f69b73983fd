// Writes sample results into the folder argv[1], and the resolved forms of the configurations
// argv[2...] beside them, for conformance_schemas.py.
#include "helpers.hpp"

int main(int argc, char** argv) {
  using namespace dgap;
  const std::filesystem::path folder = argv[1];
  schemas::write_windows(folder / "windows.json", schemas::some_windows());
  schemas::write_thresholds(folder / "threshold.json", schemas::some_thresholds());
  schemas::write_sensitivity(folder / "sensitivity.json", schemas::some_sensitivity());
  schemas::write_allocation_results(folder / "allocation_results.json",
                                    schemas::some_allocation_results());
  for (int i = 2; i < argc; ++i) {
    schemas::Config config = schemas::read_config(argv[i]);
    base::write_file_atomically(folder / (config.run.name + ".yaml"), schemas::to_yaml(config));
    config.run.dir = folder.string();
    std::filesystem::create_directories(config.run_directory());
    base::write_file_atomically(config.run_directory() / "report.html", "x");
    schemas::Stage(config, "report", {}).finish({config.run_directory() / "report.html"});
  }
}
