#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <optional>

#include "base/stop.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "statistics/window.hpp"
#include "trainer/corrector_objective.hpp"
#include "trainer/fit.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

constexpr std::int64_t kStepsPerTask = 64;

/// `paper` learns from risky steps, `extended` from all.
std::vector<std::int32_t> steps_of(const Samples& samples, bool extended) {
  std::vector<std::int32_t> steps;
  for (std::int32_t step = 0; step < samples.steps; ++step) {
    if (extended || samples.label[step] != 0) steps.push_back(step);
  }
  return steps;
}

/// Mean KL(reference || .) over the validation steps, before and with every step corrected, by the
/// runtime's corrector and the exact metrics of statistics.
void set_validation_kl(const PrecisionData& data, schemas::TrainedNetwork& trained) {
  const runtime::Corrector corrector(trained.info, trained.tensors);
  const Samples& samples = data.validation;
  std::vector<double> before(static_cast<std::size_t>(samples.steps)), after(before.size());
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, samples.steps, kStepsPerTask), [&](const auto& range) {
        base::throw_if_stop_requested();
        statistics::StepWindow window;
        std::vector<float> scratch(corrector.scratch_floats(samples.window));
        std::vector<float> edited(static_cast<std::size_t>(samples.window));
        for (std::int64_t step = range.begin(); step != range.end(); ++step) {
          window.assign(data.validation_trace, data.precision, step, data.alpha, samples.window);
          const auto z = window.logits();
          corrector.deltas(samples.features.data() + step * kDetectorWidth, z, window.lse(),
                           edited.data(), scratch.data());
          for (std::size_t i = 0; i < z.size(); ++i) edited[i] = z[i] + edited[i];
          before[step] = window.before().kl;
          after[step] = window.after({edited.data(), z.size()}).kl;
        }
      });
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0.0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
  };
  trained.figures.kl_before = mean(before);
  trained.figures.kl_after = mean(after);
}

void change_nothing(const std::string& precision, const std::string& why,
                    schemas::TrainedNetwork& trained, base::Progress& progress) {
  trained.info.architecture = "none";
  progress.warn("precision " + precision + ": the corrector " + why + ", so it changes nothing");
}

void fit_networks(const schemas::Config& config, const PrecisionData& data,
                  schemas::TrainedNetwork& trained, base::Progress& progress) {
  const schemas::CorrectorConfig& corrector = config.corrector;
  const bool extended = corrector.objective == "extended";
  const auto hidden = corrector.architecture == "linear" ? std::vector<int>{} : corrector.hidden;
  const MlpShape shape(kDetectorWidth, runtime::kCandidateWidth, hidden, 0);
  std::optional<MlpShape> mass;
  if (extended) mass.emplace(0, kDetectorWidth, hidden, shape.end());
  const MlpShape* const mass_or_null = mass ? &*mass : nullptr;
  const double temperature = extended ? 1.0 : corrector.temperature;
  const CorrectorObjective<float> training(
      data.training, data.standardisation, shape, mass_or_null,
      {temperature, corrector.lambda_rank, corrector.lambda_reg});
  // Epochs are judged by the divergence alone: the other terms steer, they are not the aim.
  const CorrectorObjective<float> validation(data.validation, data.standardisation, shape,
                                             mass_or_null, {temperature, 0.0, 0.0});

  base::Random random(config.run.seed, "corrector/" + data.name);
  std::vector<float> parameters(static_cast<std::size_t>(mass ? mass->end() : shape.end()));
  std::vector<float> decays(parameters.size());
  shape.initialise(parameters, random);
  shape.mark_weights(decays);
  if (mass) {
    mass->initialise(parameters, random);
    mass->mark_weights(decays);
  }
  fit("precision " + data.name + ", corrector", {&training, steps_of(data.training, extended)},
      {&validation, steps_of(data.validation, extended)}, config.training, std::move(decays),
      parameters, random, progress, trained.figures);

  if (trained.figures.chosen_epoch == 0) {
    change_nothing(data.name, "improved in no epoch on leaving windows as they are", trained,
                   progress);
    return;
  }
  trained.info.architecture = corrector.architecture;
  trained.info.layers = static_cast<int>(shape.layers().size());
  trained.info.mass = extended;
  const auto& [mean, scale] = data.standardisation;
  shape.store(parameters, mean, scale, trained.info.tensors + ".shape", trained.tensors);
  if (mass) mass->store(parameters, mean, scale, trained.info.tensors + ".mass", trained.tensors);
}

}  // namespace

schemas::TrainedNetwork train_corrector(const schemas::Config& config, const PrecisionData& data,
                                        base::Progress& progress) {
  const bool extended = config.corrector.objective == "extended";
  const std::int64_t positives = data.training.positives();
  const std::int64_t usable = extended ? data.training.steps : positives;
  schemas::TrainedNetwork trained;
  trained.info.inputs = {"logits"};
  trained.info.tensors = data.name + ".corrector";
  trained.figures.objective = config.corrector.objective;
  if (data.training.steps > 0) {
    trained.figures.positive_rate =
        static_cast<double>(positives) / static_cast<double>(data.training.steps);
  }
  if (usable == 0) {
    change_nothing(data.name,
                   "has no training step to learn from (corrector.objective: " +
                       config.corrector.objective + ")",
                   trained, progress);
    progress.advance(config.training.epochs);
  } else {
    fit_networks(config, data, trained, progress);
  }
  if (data.validation.steps > 0) set_validation_kl(data, trained);
  return trained;
}

}  // namespace dgap::trainer
