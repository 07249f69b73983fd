// probe_make_bundle DIRECTORY VOCABULARY WINDOW SEED [HIDDEN_SIZE]: writes a toy bundle whose
// precision "linear" has windows of a size per step and a second output.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/runtime/toy_bundle.hpp"

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  try {
    const auto seed = static_cast<std::uint64_t>(std::atoll(argv[4]));
    dgap::schemas::Bundle bundle = dgap::test::toy_context_bundle(
        std::atoll(argv[2]), std::atoi(argv[3]), seed, argc == 6 ? std::atoll(argv[5]) : 64);
    dgap::schemas::PrecisionEntry& linear = bundle.precisions.at("linear");
    linear.window_mass = 0.8;
    linear.escalate_tau = 0.6;
    linear.online = dgap::schemas::OnlineRate{0.3, 0.02, 0.0, 1.0};
    linear.detector.calibration = dgap::schemas::RiskScale{0.9, -0.1};
    linear.detector.escalate = true;
    dgap::test::add_network(bundle.tensors, linear.detector.tensors + ".escalate",
                            dgap::schemas::kDetectorInputs1, {}, seed + 100);
    dgap::test::write_toy_bundle(argv[1], bundle);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
