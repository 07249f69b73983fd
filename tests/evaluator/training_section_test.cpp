#include "evaluator/training_section.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schemas/results/trained.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::evaluator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TrainingSection, SaysWhatWasTriedAndWhatItGave) {
  const testing::TemporaryFolder folder;
  schemas::Config config;
  config.run.dir = folder.path().string();
  config.run.name = "run";
  config.precisions = {schemas::preset("K1V1"), schemas::preset("K4V4")};

  schemas::TrainedNetwork network;
  network.info.architecture = "mlp", network.info.form = "window";
  network.info.inputs = {"logits", "context"};
  network.tensors["x"] = {{512}, std::vector<float>(512)};
  schemas::TrainingFigures& f = network.figures;
  f.training_steps = 6144;
  f.initial_validation_loss = 0.5;
  f.settings_tried = 12;
  f.setting = {{"corrector.hidden", "[64, 32]"}};
  f.seed_losses = {0.40, 0.42, 0.44};
  f.curve_steps = {1024, 6144};
  f.curve_losses = {0.45, 0.40};
  schemas::write_trained(config.run_directory() / "corrector", "K1V1", network);
  f.curve_steps.clear(), f.curve_losses.clear(), f.seed_losses.clear();
  f.settings_tried = 1, f.setting.clear();
  network.info.architecture = "none", network.info.form = "candidate";
  schemas::write_trained(config.run_directory() / "corrector", "K4V4", network);

  const std::string table = training_table(config);
  EXPECT_THAT(table, HasSubstr("mlp of the window (logits, context)"));
  EXPECT_THAT(table, HasSubstr("512 (2.0 KiB)"));
  EXPECT_THAT(table, HasSubstr("12<br>corrector.hidden: [64, 32]"));
  EXPECT_THAT(table, HasSubstr("0.42 ± 0.02 (3 seeds)"));
  const std::string plot = learning_curves(config);
  EXPECT_THAT(plot, HasSubstr("K1V1"));
  EXPECT_THAT(plot, Not(HasSubstr("K4V4")));
  EXPECT_EQ(training_files(config).size(), 4u);
}

}  // namespace
}  // namespace dgap::evaluator
