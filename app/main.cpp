#include <iostream>

#include <nlohmann/json.hpp>

#include "app/command.hpp"
#include "app/doctor.hpp"
#include "app/dry_run.hpp"
#include "app/inspect.hpp"
#include "app/signals.hpp"
#include "calibrator/allocation/allocate.hpp"
#include "calibrator/calibrator.hpp"
#include "collector/collect.hpp"
#include "evaluator/evaluator.hpp"
#include "trainer/trainer.hpp"

int main(int argc, char** argv) {
  using namespace dgap;
  app::install_signal_handlers();
  app::Actions actions;
  actions.stages = {{"allocate", calibrator::allocate},   {"collect", collector::collect},
                    {"calibrate", calibrator::calibrate}, {"train", trainer::train},
                    {"threshold", calibrator::threshold}, {"export", calibrator::export_bundle},
                    {"evaluate", evaluator::evaluate},    {"report", evaluator::report}};
  actions.estimate = app::estimate;
  actions.inspect = app::inspect;
  actions.verify = app::verify;
  actions.doctor = app::doctor;
  return app::run_command(argc, argv, actions, std::cout);
}
