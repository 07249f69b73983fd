// Writes a run directory with a small full trace, calibrates it, and prints what StepWindow says of
// every step as one JSON object: conformance_calibration.py computes the same with numpy.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "calibrator/calibrator.hpp"
#include "schemas/results/results.hpp"
#include "statistics/window.hpp"
#include "tests/calibrator/run_fixture.hpp"

int main(int argc, char** argv) {
  using namespace dgap;
  if (argc != 2) return 2;
  testing::RandomTrace options = testing::run_trace();
  options.grid = 0.25f;  // many ties
  options.vocab = 211;
  const schemas::TracePart trace = testing::make_trace(options);
  schemas::Config config = testing::config_for(argv[1]);
  testing::write_traces(config, trace, options.units, true);
  base::Progress silent;
  calibrator::calibrate(config, silent);

  nlohmann::json output;
  statistics::StepWindow window;
  const auto windows = schemas::read_windows(config.run_directory() / "windows.json");
  for (std::size_t p = 0; p < trace.precisions.size(); ++p) {
    const schemas::WindowResult& result = windows.at(trace.precisions[p].name);
    nlohmann::json& columns = output[trace.precisions[p].name];
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
      window.assign(trace, p, step, result.alpha, result.window);
      std::vector<float> edited, oracle(window.k());
      for (int i = 0; i < window.k(); ++i) {
        edited.push_back(window.logits()[i] + (i % 2 == 0 ? 0.5f : -0.75f));
      }
      window.oracle(oracle);
      columns["coverage"].push_back(window.coverage());
      columns["drift"].push_back(window.drift());
      columns["risky"].push_back(window.risky(config.labels.epsilon, config.labels.rho_c));
      for (const auto& [name, metrics] : {std::pair{"before", window.before()},
                                          {"after", window.after(edited)},
                                          {"oracle", window.after(oracle)}}) {
        columns[name]["kl"].push_back(metrics.kl);
        columns[name]["drift"].push_back(metrics.drift);
        columns[name]["nll"].push_back(metrics.nll);
        columns[name]["top1"].push_back(metrics.top1);
      }
    }
  }
  std::puts(output.dump().c_str());
}
