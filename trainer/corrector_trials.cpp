#include "trainer/corrector_trials.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "trainer/corrector_objective.hpp"
#include "trainer/fit.hpp"

namespace dgap::trainer {
namespace {

/// Trains one corrector. Seed 0 is the run's own.
schemas::TrainedNetwork fit_corrector(const schemas::Config& config, const PrecisionData& data,
                                      schemas::TrainedNetwork trained, int seed,
                                      std::vector<std::int32_t> steps, base::Progress& progress) {
  const schemas::CorrectorConfig& corrector = config.corrector;
  const bool extended = corrector.objective == "extended";
  const CorrectorShape shape(corrector, data.training);
  const double temperature = extended ? 1.0 : corrector.temperature;
  const CorrectorObjective<float> training(
      data.training, data.standardisation, shape,
      {temperature, corrector.lambda_rank, corrector.lambda_reg});
  // Epochs are judged by the divergence alone: the other terms steer, they are not the aim.
  const CorrectorObjective<float> validation(data.validation, data.standardisation, shape,
                                             {temperature, 0.0, 0.0});
  base::Random random(config.run.seed,
                      "corrector/" + data.name + (seed == 0 ? "" : "/seed" + std::to_string(seed)));
  std::vector<float> parameters(static_cast<std::size_t>(shape.end()));
  std::vector<float> decays(parameters.size());
  shape.initialise(parameters, random);
  shape.mark_weights(decays);
  fit("precision " + data.name + ", corrector", {&training, std::move(steps)},
      {&validation, steps_of(data.validation, extended)}, config.training, std::move(decays),
      parameters, random, progress, trained.figures);
  if (trained.figures.chosen_epoch == 0) {
    trained.info.architecture = "none";
  } else {
    shape.store(parameters, data.standardisation, trained.info, trained.tensors);
  }
  return trained;
}

/// Calls fit_corrector, or takes what the store has of it; every call advances the progress alike.
class Trials {
 public:
  Trials(const PrecisionData& data, const schemas::TrainedNetwork& blank, const FitStore& store,
         base::Progress& progress)
      : data_(data), blank_(blank), store_(store), progress_(progress) {}

  schemas::TrainedNetwork run(const std::string& name, const schemas::Config& config, int seed,
                              const std::vector<std::int32_t>& steps) const {
    bool kept = true;
    schemas::TrainedNetwork trained = store_.get(name, [&] {
      kept = false;
      return fit_corrector(config, data_, blank_, seed, steps, progress_);
    });
    if (kept) progress_.advance(config.training.epochs);
    return trained;
  }

 private:
  const PrecisionData& data_;
  const schemas::TrainedNetwork& blank_;
  const FitStore& store_;
  base::Progress& progress_;
};

/// The lowest validation losses of trainings on shares of the steps, all of them last.
void add_learning_curve(const Trials& trials, const schemas::Config& config,
                        const std::vector<std::int32_t>& steps, double loss_of_all,
                        schemas::TrainingFigures& figures, base::Progress& progress) {
  if (config.training.learning_curve.empty()) return;
  for (const double share : config.training.learning_curve) {
    const auto some = share_of(steps, share);
    const std::string name = "curve-" + std::to_string(figures.curve_steps.size());
    figures.curve_steps.push_back(std::ssize(some));
    if (some.empty()) {
      figures.curve_losses.push_back(figures.initial_validation_loss);
      progress.advance(config.training.epochs);
    } else {
      figures.curve_losses.push_back(chosen_loss(trials.run(name, config, 0, some).figures));
    }
  }
  figures.curve_steps.push_back(std::ssize(steps));
  figures.curve_losses.push_back(loss_of_all);
}

}  // namespace

std::vector<std::int32_t> share_of(const std::vector<std::int32_t>& steps, double share) {
  constexpr std::size_t kRun = 64;
  const auto runs_taken = [&](std::size_t runs) {
    return std::floor(static_cast<double>(runs) * share);
  };
  std::vector<std::int32_t> some;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (runs_taken(i / kRun + 1) > runs_taken(i / kRun)) some.push_back(steps[i]);
  }
  return some;
}

std::vector<std::int32_t> steps_of(const Samples& samples, bool extended) {
  std::vector<std::int32_t> steps;
  for (std::int32_t step = 0; step < samples.steps; ++step) {
    if (extended || samples.label[step] != 0) steps.push_back(step);
  }
  return steps;
}

std::int64_t corrector_trainings(const schemas::Config& config) {
  std::int64_t settings = 1;
  for (const auto& [key, values] : config.training.search) settings *= std::ssize(values);
  return settings + std::ssize(config.training.learning_curve) + config.training.seeds - 1;
}

schemas::TrainedNetwork best_corrector(const schemas::Config& config, const PrecisionData& data,
                                       const schemas::TrainedNetwork& blank, const FitStore& store,
                                       base::Progress& progress) {
  const bool extended = config.corrector.objective == "extended";
  if (corrector_trainings(config) > 1 && steps_of(data.validation, extended).empty()) {
    throw base::FailedError(
        "precision " + data.name +
        ": training.search, seeds and learning_curve choose by validation steps, and there are "
        "none to learn from; collect some, or remove these keys");
  }
  const Trials trials(data, blank, store, progress);
  const auto steps = steps_of(data.training, extended);
  const auto settings = schemas::search_settings(config);
  std::size_t chosen = 0;
  schemas::TrainedNetwork best = trials.run("setting-0", settings[0].config, 0, steps);
  for (std::size_t i = 1; i < settings.size(); ++i) {
    auto trained = trials.run("setting-" + std::to_string(i), settings[i].config, 0, steps);
    if (!(chosen_loss(trained.figures) < chosen_loss(best.figures))) continue;
    best = std::move(trained);
    chosen = i;
  }
  const schemas::Config& setting = settings[chosen].config;
  schemas::TrainingFigures about;  // all of it
  about.initial_validation_loss = best.figures.initial_validation_loss;
  add_learning_curve(trials, setting, steps, chosen_loss(best.figures), about, progress);
  about.seed_losses = {chosen_loss(best.figures)};
  for (int seed = 1; seed < config.training.seeds; ++seed) {
    auto trained = trials.run("seed-" + std::to_string(seed), setting, seed, steps);
    about.seed_losses.push_back(chosen_loss(trained.figures));
    if (about.seed_losses.back() < chosen_loss(best.figures)) best = std::move(trained);
  }
  best.figures.settings_tried = static_cast<int>(settings.size());
  best.figures.setting = settings[chosen].values;
  best.figures.seed_losses = about.seed_losses;
  best.figures.curve_steps = about.curve_steps;
  best.figures.curve_losses = about.curve_losses;
  return best;
}

}  // namespace dgap::trainer
