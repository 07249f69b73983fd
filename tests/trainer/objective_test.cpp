#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "runtime/models.hpp"
#include "statistics/step_context.hpp"
#include "statistics/window.hpp"
#include "tests/trainer/data.hpp"
#include "trainer/corrector_objective.hpp"
#include "trainer/detector_objective.hpp"

namespace dgap::trainer {
namespace {

using runtime::kCandidateWidth;
using runtime::kDetectorWidth;
using testing::gradient_error;
using testing::random_parameters;

struct Fixture {
  schemas::Config config = testing::make_config();
  schemas::TracePart trace = testing::make_trace({});
  Samples samples;
  Standardisation standardisation;
  void take(const std::vector<std::string>& inputs, int window) {
    config.corrector.inputs = inputs;
    samples = make_samples(trace, 0, config, 0.9, window);
    standardisation = trainer::standardisation(samples);
  }
  explicit Fixture(const std::string& objective, double temperature = 1.0, int window = 21) {
    config.corrector.objective = objective;
    config.corrector.temperature = temperature;
    samples = make_samples(trace, 0, config, 0.9, window);
    standardisation = trainer::standardisation(samples);
  }
};

std::vector<std::int32_t> some_steps(int count) {
  std::vector<std::int32_t> steps(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) steps[i] = (i * 7) % 64;
  return steps;
}

TEST(Samples, TargetIsTheReferenceOverWindowAndTail) {
  const Fixture s("extended");
  const auto& reference = s.trace.reference;
  for (std::int64_t step = 0; step < s.samples.steps; ++step) {
    const WindowTarget target = s.samples.target_of(step);
    ASSERT_EQ(target.k, 21);
    ASSERT_TRUE(target.has_tail);
    double inside = 0.0, tail = 0.0;
    std::vector<bool> in_window(120);
    for (int i = 0; i < 21; ++i) {
      const std::int32_t id = s.trace.columns[0].top_ids[step * 41 + i];
      in_window[id] = true;
      const double p = std::exp(reference.logits[step * 120 + id] - reference.lse[step]);
      EXPECT_NEAR(target.probability[i], p, 1e-7);
      inside += p;
    }
    for (int id = 0; id < 120; ++id) {
      if (!in_window[id]) tail += std::exp(double{s.trace.columns[0].logits[step * 120 + id]});
    }
    EXPECT_NEAR(target.tail_probability, 1.0 - inside, 1e-7);
    EXPECT_NEAR(target.tail_logit, std::log(tail), 1e-6);
    // KL over window and tail of the unedited window is at most the full-vocabulary KL (data
    // processing), and close to it where the window holds the mass.
    const double kl = window_kl(s.samples.logits.data() + step * s.samples.stride, target, 1.0,
                                static_cast<float*>(nullptr));
    EXPECT_GE(kl, 0.0);
    EXPECT_LE(kl, s.trace.columns[0].kl[step] + 1e-6);
  }
}

TEST(Samples, WholeVocabularyHasNoTail) {
  testing::TraceOptions options;
  options.vocab = options.top = 40;
  const auto trace = testing::make_trace(options);
  const auto samples = make_samples(trace, 0, testing::make_config(), 0.9, 40);
  for (std::int64_t step = 0; step < samples.steps; ++step) {
    EXPECT_FALSE(samples.has_tail[step]);
    EXPECT_NEAR(window_kl(samples.logits.data() + step * samples.stride, samples.target_of(step),
                          1.0, static_cast<float*>(nullptr)),
                trace.columns[0].kl[step], 1e-5);
  }
}

TEST(Samples, WindowsThatAMassEndsHaveTheirTail) {
  const auto trace = testing::make_trace({});
  const auto samples = make_samples(trace, 0, testing::make_config(), 0.9, 40, 0.8);
  statistics::StepWindow window;
  int shorter = 0;
  for (std::int64_t step = 0; step < samples.steps; ++step) {
    window.assign(trace, 0, step, 0.9, 40, 0.8);
    EXPECT_EQ(samples.size[step], window.k());
    EXPECT_TRUE(samples.has_tail[step]);
    EXPECT_NEAR(samples.tail_probability[step], 1.0 - window.reference_mass(), 1e-6);
    shorter += window.k() < 40;
  }
  EXPECT_GT(shorter, 10);
}

TEST(Samples, LabelsAreThoseOfStatistics) {
  const Fixture s("extended");
  statistics::StepWindow window;
  for (std::int64_t step = 0; step < s.samples.steps; ++step) {
    window.assign(s.trace, 0, step, 0.9, 21);
    EXPECT_EQ(s.samples.label[step] != 0, window.risky(0.05, 0.3));
  }
  EXPECT_GT(s.samples.positives(), 10);
  EXPECT_LT(s.samples.positives(), 64);
}

TEST(Samples, StandardisedFeaturesHaveMeanZeroAndDeviationOne) {
  const Fixture s("extended");
  for (int f = 0; f < kDetectorWidth; ++f) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t step = 0; step < s.samples.steps; ++step) {
      const double x = (s.samples.features[step * kDetectorWidth + f] - s.standardisation.mean[f]) *
                       s.standardisation.scale[f];
      sum += x, squares += x * x;
    }
    EXPECT_NEAR(sum / 64, 0.0, 1e-4);
    const bool constant = runtime::kDetectorFeatures[f] == "log_candidates";
    EXPECT_NEAR(squares / 64, constant ? 0.0 : 1.0, 1e-4) << runtime::kDetectorFeatures[f];
  }
  EXPECT_EQ(s.standardisation.scale[kDetectorWidth - 1], 0.0f);
}

TEST(DetectorObjective, GradientEqualsDifferenceQuotients) {
  const Fixture s("extended");
  for (const std::vector<int>& hidden : {std::vector<int>{}, {9, 5}}) {
    const NetworkShape network(0, kDetectorWidth, hidden, 0);
    const DetectorObjective<double> objective(s.samples, s.standardisation, network, 3.0);
    const auto steps = some_steps(11);
    const auto parameters = random_parameters<double>(network.end(), 0.5, 1);
    std::vector<double> gradient(parameters.size());
    const double loss = objective.chunk(steps, parameters.data(), gradient.data());
    const auto f = [&](const std::vector<double>& p) {
      return objective.chunk(steps, p.data(), nullptr);
    };
    EXPECT_EQ(loss, f(parameters));
    EXPECT_LT(gradient_error(gradient, parameters, f), 1e-8);
  }
}

/// Configurations of every form, small.
schemas::CorrectorConfig small(const std::string& form, const std::vector<int>& hidden,
                               const std::string& objective = "extended",
                               const std::vector<std::string>& inputs = {"logits"}) {
  schemas::CorrectorConfig config;
  config.inputs = inputs, config.rank = 3;
  config.objective = objective;
  config.hidden = hidden;
  config.architecture = form == "transformer" ? form : hidden.empty() ? "linear" : "mlp";
  config.form = form == "window" ? form : "candidate";
  config.transformer = {.width = 6, .heads = 2, .blocks = 1, .hidden = 5};
  return config;
}

struct ObjectiveCase {
  std::string objective;
  int window;
  CorrectorLoss loss;
  std::string form;
  std::vector<int> hidden;
  std::vector<std::string> inputs = {"logits"};
};

TEST(CorrectorObjective, GradientEqualsDifferenceQuotients) {
  const std::vector<ObjectiveCase> cases = {
      {"paper", 21, {1.0, 0.0, 0.0}, "candidate", {}},
      {"paper", 21, {2.0, 0.1, 1e-2}, "candidate", {6, 5}},
      {"extended", 16, {1.0, 0.0, 0.0}, "candidate", {6, 5}},
      {"extended", 37, {1.0, 0.1, 1e-2}, "candidate", {6, 5}},
      {"extended", 40, {1.0, 1.0, 1e-4}, "candidate", {}},
      {"extended", 17, {1.0, 0.1, 1e-2}, "window", {3, 2}},
      {"paper", 7, {2.0, 0.1, 1e-2}, "window", {}},
      {"paper", 32, {2.0, 0.1, 1e-2}, "transformer", {6}},
      {"extended", 21, {1.0, 0.1, 1e-2}, "transformer", {6}},
      {"extended", 21, {1.0, 0.1, 1e-2}, "candidate", {6}, {"logits", "tokens"}},
      {"paper", 17, {2.0, 0.1, 1e-2}, "candidate", {6}, {"logits", "hidden"}},
      {"extended", 17, {1.0, 0.1, 1e-2}, "window", {3}, {"logits", "tokens", "hidden"}}};
  for (const ObjectiveCase& c : cases) {
    Fixture s(c.objective, c.loss.temperature, c.window);
    s.take(c.inputs, c.window);
    s.samples.weight[7] = 0.25f;
    const CorrectorShape shape(small(c.form, c.hidden, c.objective, c.inputs), s.samples);
    const CorrectorObjective<double> objective(s.samples, s.standardisation, shape, c.loss);
    const auto steps = some_steps(13);
    const auto parameters = random_parameters<double>(shape.end(), 0.3, 2);
    std::vector<double> gradient(parameters.size());
    const double loss = objective.chunk(steps, parameters.data(), gradient.data());
    const auto f = [&](const std::vector<double>& p) {
      return objective.chunk(steps, p.data(), nullptr);
    };
    EXPECT_EQ(loss, f(parameters));
    EXPECT_LT(gradient_error(gradient, parameters, f), 1e-7)
        << c.objective << " " << c.form << " " << c.window << " " << c.inputs.back();
  }
}

/// Steps whose windows hold fewer candidates than K, because the decode rules tokens out.
TEST(CorrectorObjective, ShortWindowsAreTheirOwn) {
  Fixture s("extended");
  const float kMinusInfinity = -std::numeric_limits<float>::infinity();
  for (std::int64_t id = 0; id < 120; ++id) {
    if (id % 13 != 0) {
      s.trace.reference.logits[3 * 120 + id] = kMinusInfinity;
      s.trace.columns[0].logits[3 * 120 + id] = kMinusInfinity;
    }
  }
  statistics::recompute_columns(s.trace, 0.95);
  const Samples samples = make_samples(s.trace, 0, s.config, 0.9, 21);
  ASSERT_EQ(samples.size[3], 10);
  EXPECT_FALSE(samples.has_tail[3]);
  for (const char* form : {"candidate", "window", "transformer"}) {
    const CorrectorShape shape(small(form, {3, 2}), samples);
    const CorrectorObjective<double> objective(samples, s.standardisation, shape, {1.0, 0.1, 1e-2});
    const std::vector<std::int32_t> steps = {1, 3, 5};
    const auto parameters = random_parameters<double>(shape.end(), 0.3, 2);
    std::vector<double> gradient(parameters.size());
    objective.chunk(steps, parameters.data(), gradient.data());
    const auto f = [&](const std::vector<double>& p) {
      return objective.chunk(steps, p.data(), nullptr);
    };
    EXPECT_LT(gradient_error(gradient, parameters, f), 1e-7) << form;
  }
}

TEST(CorrectorObjective, LossIsASumOverSteps) {
  Fixture s("extended");
  for (std::size_t i = 0; i < s.samples.weight.size(); ++i)
    s.samples.weight[i] = static_cast<float>(i % 3) * 0.5f;
  for (const char* form : {"candidate", "window", "transformer"}) {
    const CorrectorShape shape(small(form, {6, 5}), s.samples);
    const CorrectorObjective<float> objective(s.samples, s.standardisation, shape,
                                              {1.0, 0.1, 1e-2});
    const auto parameters = random_parameters<float>(shape.end(), 0.3, 2);
    const auto steps = some_steps(16);
    double sum = 0.0;
    for (const std::int32_t step : steps) {
      sum += objective.chunk({&step, 1}, parameters.data(), nullptr);
    }
    EXPECT_NEAR(objective.chunk(steps, parameters.data(), nullptr), sum, 1e-12 * sum) << form;
  }
}

/// What the loss sees is what the runtime serves: with pairs and regularisation off, the extended
/// loss of a step is the KL over window and tail of the runtime's own edit, to the last bit.
void expect_edits_of_the_runtime(const std::string& form, const std::vector<std::string>& inputs) {
  Fixture s("extended");
  s.take(inputs, 21);
  const CorrectorShape shape(small(form, {16, 8}, "extended", inputs), s.samples);
  const auto parameters = random_parameters<float>(shape.end(), 0.3, 2);
  const CorrectorObjective<float> objective(s.samples, s.standardisation, shape, {});
  schemas::Tensors tensors;
  schemas::NetworkInfo info;
  info.tensors = "c", info.inputs = inputs;
  shape.store(parameters, s.standardisation, info, tensors);
  const runtime::Corrector corrector(info, tensors);
  runtime::Corrector::Scratch scratch = corrector.scratch(21);
  std::vector<float> z(21);
  statistics::StepWindow columns;
  statistics::StepContext context;
  for (std::int32_t step = 0; step < 64; ++step) {
    const auto window = s.samples.window_of(step);
    const float* const phi = s.samples.features.data() + step * kDetectorWidth;
    columns.assign(s.trace, 0, step, 0.9, 21);
    corrector.deltas(context.corrector_step(corrector, s.trace, 0, step, columns, phi), z.data(),
                     scratch);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = window[i] + z[i];
    EXPECT_EQ(objective.chunk({&step, 1}, parameters.data(), nullptr),
              window_kl(z.data(), s.samples.target_of(step), 1.0, static_cast<float*>(nullptr)));
  }
}

TEST(Samples, HiddenStatesMustBeThere) {
  Fixture s("extended");
  s.trace.columns[0].hidden.clear();
  EXPECT_THROW(s.take({"logits", "hidden"}, 21), base::FailedError);
  EXPECT_NO_THROW(s.take({"logits", "tokens"}, 21));
}

TEST(CorrectorObjective, EditsAsTheRuntimeDoes) {
  for (const char* form : {"candidate", "window", "transformer"}) {
    expect_edits_of_the_runtime(form, {"logits"});
    expect_edits_of_the_runtime(form, {"logits", "context"});
    expect_edits_of_the_runtime(form, {"logits", "tokens"});
    expect_edits_of_the_runtime(form, {"logits", "hidden"});
    expect_edits_of_the_runtime(form, {"logits", "context", "tokens", "hidden"});
  }
}

}  // namespace
}  // namespace dgap::trainer
