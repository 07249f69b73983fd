#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/stop.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "schemas/results/results.hpp"
#include "schemas/results/trained.hpp"
#include "tests/trainer/data.hpp"
#include "trainer/trainer.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Warnings : public base::Progress {
 public:
  void warn(std::string_view message) override { messages.emplace_back(message); }
  void advance(std::int64_t done) override { advanced += done; }
  std::vector<std::string> messages;
  std::int64_t advanced = 0;
};

PrecisionData data_of(const schemas::Config& config, const testing::TraceOptions& options,
                      int window = 21) {
  testing::TraceOptions held_out = options;
  held_out.split = "validation";
  PrecisionData data;
  data.name = "A";
  data.alpha = 0.9;
  data.training = make_samples(testing::make_trace(options), 0, config, 0.9, window);
  data.validation_trace = testing::make_trace(held_out);
  data.validation = make_samples(data.validation_trace, 0, config, 0.9, window);
  data.standardisation = standardisation(data.training);
  return data;
}

std::string bytes_of(const schemas::TrainedNetwork& network) {
  return schemas::encode_safetensors(network.tensors);
}

/// z_q is the reference's logits at .6 of their size: sharpening repairs it.
TEST(TrainCorrector, LearnsAKnownRepair) {
  for (const char* objective : {"paper", "extended"}) {
    schemas::Config config = testing::make_config();
    config.corrector.objective = objective;
    config.training.learning_rate = 0.01;
    config.training.epochs = 15;
    testing::TraceOptions options;
    options.units = 12;
    const PrecisionData data = data_of(config, options);
    Warnings progress;
    const auto trained = train_corrector(config, data, progress);
    EXPECT_TRUE(progress.messages.empty());
    EXPECT_EQ(trained.info.mass, std::string(objective) == "extended");
    EXPECT_EQ(progress.advanced, 15);
    // A window of 21 of 120 tokens cannot repair the tail.
    EXPECT_LT(*trained.figures.kl_after, 0.6 * *trained.figures.kl_before) << objective;
    EXPECT_LT(trained.figures.validation_loss[trained.figures.chosen_epoch - 1],
              trained.figures.initial_validation_loss);
  }
}

TEST(TrainCorrector, EveryFormLearnsAKnownRepair) {
  const auto left = [](const char* architecture, const char* form) {
    schemas::Config config = testing::make_config();
    config.corrector.architecture = architecture;
    config.corrector.form = form;
    config.corrector.transformer = {.width = 8, .heads = 2, .blocks = 1, .hidden = 16};
    config.training.learning_rate = 0.01;
    config.training.epochs = 15;
    testing::TraceOptions options;
    options.units = 24;
    Warnings progress;
    const auto trained = train_corrector(config, data_of(config, options), progress);
    EXPECT_EQ(trained.info.architecture, architecture);
    EXPECT_EQ(trained.info.form, form);
    return *trained.figures.kl_after / *trained.figures.kl_before;
  };
  EXPECT_LT(left("linear", "candidate"), 0.7);
  EXPECT_LT(left("transformer", "candidate"), 0.6);
  EXPECT_LT(left("mlp", "window"), 0.8);  // what it learns of one rank is not that of another
  EXPECT_LT(left("linear", "window"), 0.8);
}

/// A quantised decode that forgot what it copies: the text repairs it, the logits cannot.
TEST(TrainCorrector, LearnsToCopyFromTheContext) {
  testing::TraceOptions options;
  options.vocab = options.top = 40;
  options.units = 8, options.steps_per_unit = 60;
  options.flatten = 1.0, options.copying = 4.0;
  schemas::Config config = testing::make_config();
  config.training.learning_rate = 0.01;
  const auto share_left = [&](const std::vector<std::string>& inputs) {
    config.corrector.inputs = inputs;
    Warnings progress;
    const auto trained = train_corrector(config, data_of(config, options, 40), progress);
    EXPECT_EQ(trained.info.inputs, inputs);
    return *trained.figures.kl_after / *trained.figures.kl_before;
  };
  EXPECT_GT(share_left({"logits"}), 0.8);
  EXPECT_LT(share_left({"logits", "context"}), 0.5);
}

/// A decode that always rates some tokens too low, and one that does when the hidden state says so.
TEST(TrainCorrector, LearnsWhatTokensAndHiddenStatesNeed) {
  testing::TraceOptions options;
  options.vocab = options.top = 40;
  options.units = 32;
  options.flatten = 1.0;
  schemas::Config config = testing::make_config();
  config.training.learning_rate = 0.02;
  config.training.epochs = 20;
  const auto share_left = [&](const std::vector<std::string>& inputs) {
    config.corrector.inputs = inputs;
    Warnings progress;
    const auto trained = train_corrector(config, data_of(config, options, 40), progress);
    return *trained.figures.kl_after / *trained.figures.kl_before;
  };
  options.token_bias = 1.5;
  EXPECT_GT(share_left({"logits"}), 0.6);
  EXPECT_LT(share_left({"logits", "tokens"}), 0.3);
  options.token_bias = 0.0, options.hidden_bias = 1.5;
  EXPECT_GT(share_left({"logits", "tokens"}), 0.8);
  EXPECT_LT(share_left({"logits", "hidden"}), 0.4);
}

TEST(TrainCorrector, TriesSettingsAndSeedsAndFewerSteps) {
  schemas::Config config = testing::make_config();
  config.model.path = config.corpus.path = "unused";  // required
  config.training.epochs = 3;
  config.training.search = {{"training.learning_rate", {"1.0e-06", "0.01"}},
                            {"corrector.architecture", {"linear", "mlp"}}};
  config.training.seeds = 3;
  config.training.learning_curve = {0.01, 0.5};
  testing::TraceOptions options;
  options.units = 16;  // 256 steps
  Warnings progress;
  const PrecisionData data = data_of(config, options);
  const auto trained = train_corrector(config, data, progress);
  EXPECT_EQ(corrector_trainings(config), 4 + 2 + 2);
  EXPECT_EQ(progress.advanced, 8 * 3);
  const schemas::TrainingFigures& f = trained.figures;
  EXPECT_EQ(f.settings_tried, 4);
  EXPECT_EQ(f.setting.at("training.learning_rate"), "0.01");
  EXPECT_EQ(f.setting.at("corrector.architecture"), trained.info.architecture);
  ASSERT_EQ(f.seed_losses.size(), 3u);
  EXPECT_NE(f.seed_losses[0], f.seed_losses[1]);
  EXPECT_NE(f.seed_losses[1], f.seed_losses[2]);
  EXPECT_EQ(chosen_loss(f), *std::min_element(f.seed_losses.begin(), f.seed_losses.end()));
  EXPECT_EQ(f.curve_steps, (std::vector<std::int64_t>{0, 128, 256}));
  EXPECT_EQ(f.curve_losses[0], f.initial_validation_loss);
  EXPECT_GT(f.curve_losses[1], f.curve_losses[2]);
  EXPECT_EQ(f.curve_losses[2], f.seed_losses[0]);

  // The setting that was kept, alone, is the same training.
  schemas::Config alone = config;
  alone.training.search.clear(), alone.training.learning_curve.clear(), alone.training.seeds = 1;
  alone.training.learning_rate = 0.01;
  alone.corrector.architecture = trained.info.architecture;
  EXPECT_EQ(chosen_loss(train_corrector(alone, data, progress).figures), f.seed_losses[0]);
}

TEST(TrainCorrector, ChoosesByValidationStepsAlone) {
  schemas::Config config = testing::make_config();
  PrecisionData data = data_of(config, {});
  data.validation = make_samples(testing::make_trace({.units = 0}), 0, config, 0.9, 21);
  Warnings progress;
  EXPECT_NO_THROW(train_corrector(config, data, progress));
  config.training.seeds = 2;
  try {
    train_corrector(config, data, progress);
    FAIL();
  } catch (const base::FailedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("precision A: training.search, seeds and learning_curve"));
  }
}

TEST(TrainCorrector, StepsCountAsTheirSourceOrDomainWeighs) {
  schemas::Config config = testing::make_config();
  testing::TraceOptions options;
  const auto trace =
      testing::joined(testing::make_trace(options), testing::make_trace(options), "code");
  const auto weights = [&] { return make_samples(trace, 0, config, 0.9, 21).weight; };
  EXPECT_EQ(weights(), std::vector<float>(128, 1.0f));
  config.training.weights = {{"code", 0.5}, {"d", 1.5}};
  EXPECT_EQ(weights().front(), 1.5f);
  EXPECT_EQ(weights().back(), 0.5f);
  config.training.weights = {{"code", 0.0}};
  EXPECT_EQ(weights().front(), 2.0f);                     // mean 1
  config.training.weights = {{"s", 3.0}, {"code", 0.0}};  // the source comes first
  EXPECT_EQ(weights(), std::vector<float>(128, 1.0f));
  config.training.weights = {{"s", 0.0}};
  EXPECT_THROW(weights(), base::FailedError);
}

TEST(TrainDetector, FindsWhatMakesStepsRisky) {
  const schemas::Config config = testing::make_config();
  testing::TraceOptions options;
  options.units = 12;
  Warnings progress;
  const auto trained = train_detector(config, data_of(config, options), progress);
  EXPECT_TRUE(progress.messages.empty());
  EXPECT_GT(*trained.figures.auc, 0.85);
  EXPECT_EQ(trained.info.layers, 3);
  EXPECT_GT(trained.figures.positive_rate, 0.1);
  EXPECT_LT(trained.figures.positive_rate, 0.9);
}

TEST(TrainDetector, IsCalibratedAndRecordsHow) {
  schemas::Config config = testing::make_config();
  config.training.positive_weight = 5.0;  // an output that overstates the risk
  testing::TraceOptions options;
  options.units = 12;
  const PrecisionData data = data_of(config, options);
  Warnings progress;
  const auto trained = train_detector(config, data, progress);
  ASSERT_TRUE(trained.info.calibration.has_value());
  EXPECT_GT(trained.info.calibration->scale, 0.0);
  EXPECT_LT(trained.info.calibration->offset, 0.0);
  EXPECT_LT(trained.figures.calibration_error->after, trained.figures.calibration_error->before);
  // What is served has it: mean risk and share of risky steps agree.
  const runtime::Detector detector(trained.info, trained.tensors);
  std::vector<float> scratch(detector.scratch_floats());
  double risk = 0.0, risky = 0.0;
  for (std::int64_t step = 0; step < data.validation.steps; ++step) {
    risk += detector.risk(data.validation.features.data() + step * runtime::kDetectorWidth,
                          scratch.data());
    risky += data.validation.label[step];
  }
  EXPECT_NEAR(risk / static_cast<double>(data.validation.steps),
              risky / static_cast<double>(data.validation.steps), 0.02);
}

TEST(TrainDetector, SecondOutputFindsUncoveredSteps) {
  schemas::Config config = testing::make_config();
  config.detector.escalate = true;
  config.labels.rho_c = 0.75;  // beyond many windows' reach
  testing::TraceOptions options;
  options.units = 12;
  const PrecisionData data = data_of(config, options);
  Warnings progress;
  const auto trained = train_detector(config, data, progress);
  ASSERT_TRUE(trained.info.escalate) << ::testing::PrintToString(progress.messages);
  EXPECT_GT(*trained.figures.escalate_auc, 0.7);
  EXPECT_GT(*trained.figures.escalate_rate, 0.0);
  EXPECT_EQ(progress.advanced, 2 * config.training.epochs);
  EXPECT_TRUE(trained.tensors.contains("A.detector.escalate.0.weight"));

  config.labels.rho_c = 0.0;  // everything is covered
  Warnings again;
  const auto none = train_detector(config, data_of(config, options), again);
  EXPECT_FALSE(none.info.escalate);
  EXPECT_THAT(again.messages.back(), HasSubstr("the detector has no second output"));
}

TEST(TrainDetector, LinearIsOneLayer) {
  schemas::Config config = testing::make_config();
  config.detector.architecture = "linear";
  Warnings progress;
  const auto trained = train_detector(config, data_of(config, {}), progress);
  EXPECT_EQ(trained.info.layers, 1);
  EXPECT_EQ(trained.tensors.size(), 4u);
  EXPECT_TRUE(trained.tensors.contains("A.detector.0.weight"));
}

TEST(TrainDetector, OneClassGivesAConstant) {
  schemas::Config config = testing::make_config();
  config.labels.epsilon = 2.0;  // no distance is that large
  Warnings progress;
  const auto trained = train_detector(config, data_of(config, {}), progress);
  EXPECT_EQ(trained.info.architecture, "constant");
  EXPECT_EQ(trained.info.constant_risk, 0.0);
  EXPECT_TRUE(trained.tensors.empty());
  EXPECT_EQ(progress.advanced, config.training.epochs);
  ASSERT_EQ(progress.messages.size(), 1u);
  EXPECT_THAT(progress.messages[0], HasSubstr("precision A"));
  const runtime::Detector served(trained.info, trained.tensors);
  EXPECT_EQ(served.risk(nullptr, nullptr), 0.0f);
}

TEST(TrainCorrector, PaperWithoutRiskyStepsChangesNothing) {
  schemas::Config config = testing::make_config();
  config.labels.epsilon = 2.0;
  config.corrector.objective = "paper";
  Warnings progress;
  const auto trained = train_corrector(config, data_of(config, {}), progress);
  EXPECT_EQ(trained.info.architecture, "none");
  ASSERT_EQ(progress.messages.size(), 1u);
  EXPECT_NEAR(*trained.figures.kl_after, *trained.figures.kl_before, 1e-9);
}

TEST(TrainCorrector, WithNothingToRepairChangesNothing) {
  const schemas::Config config = testing::make_config();
  testing::TraceOptions options;
  options.flatten = 1.0;
  options.noise = 0.0;
  Warnings progress;
  const auto trained = train_corrector(config, data_of(config, options), progress);
  EXPECT_EQ(trained.info.architecture, "none");
  EXPECT_TRUE(trained.tensors.empty());
  EXPECT_EQ(trained.figures.chosen_epoch, 0);
  EXPECT_EQ(*trained.figures.kl_after, 0.0);
  EXPECT_EQ(progress.advanced, config.training.epochs);
  ASSERT_EQ(progress.messages.size(), 1u);
  EXPECT_THAT(progress.messages[0], HasSubstr("leaving windows as they are"));
}

TEST(Train, AnyNumberOfThreadsGivesTheSameBytes) {
  schemas::Config config = testing::make_config();
  config.detector.escalate = true;
  config.labels.rho_c = 0.75;  // beyond many windows' reach
  schemas::Config whole = config, transformer = config;
  whole.corrector.form = "window";
  transformer.corrector.architecture = "transformer";
  schemas::Config vectors = config;
  vectors.corrector.inputs = {"logits", "context", "tokens", "hidden"};
  std::vector<std::string> detectors, correctors;
  for (const int threads : {1, 2, 4}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
    tbb::task_arena arena(threads);
    arena.execute([&] {
      Warnings progress;
      const PrecisionData data = data_of(config, {});
      detectors.push_back(bytes_of(train_detector(config, data, progress)));
      std::string& bytes = correctors.emplace_back();
      for (const schemas::Config& form : {config, whole, transformer, vectors}) {
        bytes += bytes_of(train_corrector(form, data_of(form, {}), progress));
      }
    });
  }
  EXPECT_THAT(detectors[0], HasSubstr("detector.escalate.0.weight"));
  EXPECT_EQ(detectors[0], detectors[1]);
  EXPECT_EQ(detectors[0], detectors[2]);
  EXPECT_EQ(correctors[0], correctors[1]);
  EXPECT_EQ(correctors[0], correctors[2]);
}

TEST(Train, SeedAndPrecisionMatter) {
  schemas::Config config = testing::make_config();
  Warnings progress;
  PrecisionData data = data_of(config, {});
  const std::string first = bytes_of(train_detector(config, data, progress));
  EXPECT_EQ(bytes_of(train_detector(config, data, progress)), first);
  config.run.seed = 2;
  EXPECT_NE(bytes_of(train_detector(config, data, progress)), first);
}

TEST(Train, NamesTheStepOfANonFiniteNumber) {
  testing::TraceOptions options;
  auto trace = testing::make_trace(options);
  trace.columns[0].top_reference_logits[37 * options.top + 4] =
      std::numeric_limits<float>::quiet_NaN();
  try {
    make_samples(trace, 0, testing::make_config(), 0.9, 21);
    FAIL();
  } catch (const base::FailedError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("precision A, book train2, context 3, start 20, decode step 5"));
  }
}

/// A run directory with traces of two precisions and windows.json.
class TrainStage : public ::testing::Test {
 protected:
  void SetUp() override {
    config = testing::make_config({"A", "B"});
    config.run.dir =
        (fs::temp_directory_path() / ("dgap_train_" + std::to_string(::getpid()))).string();
    config.training.epochs = 3;
    fs::remove_all(config.run.dir);
    fs::create_directories(run() / "traces");
    std::vector<std::string> files;
    for (const char* split : {"train", "validation"}) {
      testing::TraceOptions options;
      options.split = split;
      options.precisions = {"A", "B"};
      auto trace = testing::make_trace(options);
      files.push_back("part-0000" + std::to_string(files.size()) + ".h5");
      schemas::write_trace_part(run() / "traces" / files.back(), trace);
    }
    schemas::write_trace_index(run() / "traces", files);
    schemas::Windows windows;
    for (const char* name : {"A", "B"}) {
      schemas::WindowResult w;
      w.window = 21, w.alpha = 0.9, w.rho_k = 0.8;
      windows[name] = w;
    }
    schemas::write_windows(run() / "windows.json", windows);
  }
  void TearDown() override { fs::remove_all(config.run.dir); }

  fs::path run() const { return config.run_directory(); }
  std::vector<std::string> outputs() const {
    std::vector<std::string> bytes;
    for (const char* kind : {"detector", "corrector"}) {
      for (const char* name : {"A", "B"}) {
        for (const auto& file : schemas::trained_files(run() / kind, name)) {
          bytes.push_back(base::read_file(file));
        }
      }
    }
    return bytes;
  }

  schemas::Config config;
};

/// Stops the process politely after some epochs.
class Stopper : public base::Progress {
 public:
  explicit Stopper(std::int64_t epochs) : left_(epochs) {}
  void advance(std::int64_t done) override {
    left_ -= done;
    if (left_ <= 0) throw base::InterruptedError("stopped");
  }

 private:
  std::int64_t left_;
};

TEST_F(TrainStage, WritesNetworksThatReadBackAndServe) {
  base::Progress progress;
  train(config, progress);
  for (const char* name : {"A", "B"}) {
    const auto detector = schemas::read_trained(run() / "detector", name);
    const auto corrector = schemas::read_trained(run() / "corrector", name);
    EXPECT_EQ(detector.info.tensors, std::string(name) + ".detector");
    EXPECT_EQ(corrector.info.tensors, std::string(name) + ".corrector");
    EXPECT_TRUE(corrector.tensors.contains(std::string(name) + ".corrector.mass.2.weight"));
    EXPECT_EQ(detector.figures.train_loss.size(), 3u);
    EXPECT_EQ(detector.figures.training_steps, 64);
    EXPECT_TRUE(detector.figures.auc.has_value());
    EXPECT_TRUE(corrector.figures.kl_after.has_value());
    const runtime::Detector served(detector.info, detector.tensors);
    const runtime::Corrector repaired(corrector.info, corrector.tensors);
  }
}

TEST_F(TrainStage, ResumesAtTheNextPrecisionWithEqualBytes) {
  base::Progress progress;
  train(config, progress);
  const auto uninterrupted = outputs();
  for (const char* folder : {"detector", "corrector", "stages"}) fs::remove_all(run() / folder);

  Stopper stopper(8);  // inside the second precision
  EXPECT_THROW(train(config, stopper), base::InterruptedError);
  EXPECT_TRUE(fs::exists(run() / "corrector" / "A.json"));
  EXPECT_FALSE(fs::exists(run() / "detector" / "B.json"));
  const auto written = fs::last_write_time(run() / "corrector" / "A.json");
  train(config, progress);
  EXPECT_EQ(fs::last_write_time(run() / "corrector" / "A.json"), written);
  EXPECT_EQ(outputs(), uninterrupted);
}

/// Trainings that were not done again: they advance by all epochs at once.
class KeptCounter : public base::Progress {
 public:
  explicit KeptCounter(int epochs) : epochs_(epochs) {}
  void advance(std::int64_t done) override { kept_ += done == epochs_ ? 1 : 0; }
  int kept() const { return kept_; }

 private:
  int epochs_, kept_ = 0;
};

TEST_F(TrainStage, ResumesASearchAtTheNextTraining) {
  config.model.path = config.corpus.path = "unused";  // required
  config.training.seeds = 4;
  base::Progress progress;
  train(config, progress);
  const auto uninterrupted = outputs();
  EXPECT_FALSE(fs::exists(run() / "corrector" / "A.fits"));
  for (const char* folder : {"detector", "corrector", "stages"}) fs::remove_all(run() / folder);

  Stopper stopper(3 + 3 + 3 + 1);  // inside the second seed of the first precision
  EXPECT_THROW(train(config, stopper), base::InterruptedError);
  EXPECT_TRUE(fs::exists(run() / "corrector" / "A.fits" / "seed-1.json"));
  EXPECT_FALSE(fs::exists(run() / "corrector" / "A.fits" / "seed-2.json"));
  KeptCounter counter(config.training.epochs);
  train(config, counter);
  EXPECT_EQ(counter.kept(), 2);
  EXPECT_FALSE(fs::exists(run() / "corrector" / "A.fits"));
  EXPECT_EQ(outputs(), uninterrupted);
}

TEST_F(TrainStage, TrainsAgainWhenANetworkIsDamagedOrTheConfigChanged) {
  base::Progress progress;
  train(config, progress);
  const auto first = outputs();
  base::write_file_atomically(run() / "detector" / "A.safetensors", "damaged");
  train(config, progress);
  EXPECT_EQ(outputs(), first);
  config.training.learning_rate = 1e-3;
  train(config, progress);
  EXPECT_NE(outputs(), first);
}

TEST_F(TrainStage, WritesNothingWhenItDiverges) {
  config.training.learning_rate = 1e38;
  config.training.weight_decay = 1.0;
  base::Progress progress;
  EXPECT_THROW(train(config, progress), base::FailedError);
  EXPECT_FALSE(fs::exists(run() / "detector" / "A.json"));
}

TEST_F(TrainStage, DamagedNetworksAreRefused) {
  base::Progress progress;
  train(config, progress);
  const fs::path json = run() / "detector" / "A.json";
  std::string text = base::read_file(json);
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    base::write_file_atomically(json, changed);
  };
  replace("\"layers\": 3", "\"layers\": -3");
  EXPECT_THROW(schemas::read_trained(run() / "detector", "A"), base::IoError);
  replace("\"version\": 1", "\"version\": 2");
  EXPECT_THROW(schemas::read_trained(run() / "detector", "A"), base::IoError);
  replace("\"auc\"", "\"auk\"");
  EXPECT_THROW(schemas::read_trained(run() / "detector", "A"), base::IoError);
  base::write_file_atomically(json, text.substr(0, text.size() / 2));
  EXPECT_THROW(schemas::read_trained(run() / "detector", "A"), base::IoError);
  fs::remove(json);
  EXPECT_THROW(schemas::read_trained(run() / "detector", "A"), base::IoError);
}

}  // namespace
}  // namespace dgap::trainer
