#include <algorithm>
#include <numeric>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/activation.hpp"
#include "runtime/features.hpp"
#include "runtime/network.hpp"
#include "statistics/reliability.hpp"
#include "statistics/resampling.hpp"
#include "trainer/calibration.hpp"
#include "trainer/detector_objective.hpp"
#include "trainer/fit.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

std::vector<std::int32_t> all_steps(const Samples& samples) {
  std::vector<std::int32_t> steps(static_cast<std::size_t>(samples.steps));
  std::iota(steps.begin(), steps.end(), 0);
  return steps;
}

/// f(phi) of every step, by the network that is served.
std::vector<float> outputs(const schemas::TrainedNetwork& trained, const std::string& prefix,
                           const Samples& samples) {
  const runtime::Network network(trained.tensors, prefix, trained.info.layers, kDetectorWidth, 1);
  std::vector<float> scratch(network.scratch_floats());
  std::vector<float> found(static_cast<std::size_t>(samples.steps));
  network.forward({}, samples.features.data(), samples.steps, found.data(), scratch.data());
  return found;
}

std::vector<float> risks(std::vector<float> outputs) {
  for (float& f : outputs) f = runtime::sigmoid(f);
  return outputs;
}

double count(std::span<const std::uint8_t> labels) {
  return static_cast<double>(std::count(labels.begin(), labels.end(), std::uint8_t{1}));
}

void make_constant(const PrecisionData& data, schemas::TrainedNetwork& trained,
                   base::Progress& progress) {
  const double rate = trained.figures.positive_rate;
  trained.info.architecture = "constant";
  trained.info.constant_risk = rate;
  progress.warn("precision " + data.name + ": of " + std::to_string(data.training.steps) +
                " training steps, " + std::to_string(data.training.positives()) +
                " are risky, so there is nothing to tell apart: the detector is the constant " +
                base::number(rate) + " (see labels.epsilon and labels.rho_c)");
}

/// One network from the features to a logit, and the labels that it learns.
struct Task {
  std::string name, prefix;  // of the random stream, of the tensors
  std::span<const std::uint8_t> training, validation;
  double positive_weight = 1.0;
};

void fit_network(const schemas::Config& config, const PrecisionData& data, const Task& task,
                 schemas::TrainedNetwork& trained, schemas::TrainingFigures& figures,
                 base::Progress& progress) {
  const bool linear = config.detector.architecture == "linear";
  const NetworkShape shape(0, kDetectorWidth, linear ? std::vector<int>{} : config.detector.hidden, 0);
  const DetectorObjective<float> training(data.training, task.training, data.standardisation, shape,
                                          task.positive_weight);
  const DetectorObjective<float> validation(data.validation, task.validation, data.standardisation,
                                            shape, task.positive_weight);

  base::Random random(config.run.seed, task.name + "/" + data.name);
  std::vector<float> parameters(static_cast<std::size_t>(shape.end()));
  shape.initialise(parameters, random);
  const double positives = count(task.training), all = static_cast<double>(task.training.size());
  parameters.back() =
      static_cast<float>(  // the untrained network says how frequent a label of 1 is
          base::log_f64(task.positive_weight * positives / (all - positives)));
  std::vector<float> decays(parameters.size());
  shape.mark_weights(decays);
  fit("precision " + data.name + ", " + task.name, {&training, all_steps(data.training)},
      {&validation, all_steps(data.validation)}, config.training, std::move(decays), parameters,
      random, progress, figures);

  trained.info.architecture = config.detector.architecture;
  trained.info.layers = static_cast<int>(shape.layers().size());
  shape.store(parameters, data.standardisation.mean, data.standardisation.scale, task.prefix,
              trained.tensors);
}

/// Finds the calibration on validation steps and folds it into the network.
std::pair<schemas::RiskScale, schemas::CalibrationErrors> calibrate_network(
    const Task& task, const PrecisionData& data, schemas::TrainedNetwork& trained) {
  const std::vector<float> raw = outputs(trained, task.prefix, data.validation);
  const schemas::RiskScale calibration = calibrate(raw, task.validation);
  fold(calibration, task.prefix, trained.info.layers, trained.tensors);
  const std::vector<float> after = risks(outputs(trained, task.prefix, data.validation));
  return {calibration,
          {statistics::reliability(risks(raw), task.validation).error,
           statistics::reliability(after, task.validation).error}};
}

/// The second output: distorted steps that the window does not cover. Left out, with a warning,
/// where there is nothing to tell apart.
void train_escalation(const schemas::Config& config, const PrecisionData& data,
                      schemas::TrainedNetwork& trained, base::Progress& progress) {
  const Task task{"escalation", trained.info.tensors + ".escalate", data.training.uncovered,
                  data.validation.uncovered, 1.0};
  const double positives = count(task.training);
  const bool constant = trained.info.architecture == "constant";
  if (positives == 0 || positives == static_cast<double>(task.training.size()) || constant) {
    progress.warn("precision " + data.name + ": of " + std::to_string(data.training.steps) +
                  " training steps, " + base::number(positives) +
                  " are distorted and not covered: the detector has no second output");
    progress.advance(config.training.epochs);
    return;
  }
  schemas::TrainingFigures own;
  fit_network(config, data, task, trained, own, progress);
  calibrate_network(task, data, trained);
  trained.info.escalate = true;
  trained.figures.escalate_rate = positives / static_cast<double>(task.training.size());
  trained.figures.escalate_auc =
      statistics::auc(risks(outputs(trained, task.prefix, data.validation)), task.validation);
}

}  // namespace

schemas::TrainedNetwork train_detector(const schemas::Config& config, const PrecisionData& data,
                                       base::Progress& progress) {
  const auto steps = static_cast<double>(data.training.steps);
  schemas::TrainedNetwork trained;
  trained.info.tensors = data.name + ".detector";
  trained.figures.positive_weight = config.training.positive_weight;
  const Task task{"detector", trained.info.tensors, data.training.label, data.validation.label,
                  config.training.positive_weight};
  const double positives = count(task.training);
  trained.figures.positive_rate = steps > 0 ? positives / steps : 0.0;
  if (positives == 0 || positives == steps) {
    make_constant(data, trained, progress);
    progress.advance(config.training.epochs);
    const std::vector<float> constant(static_cast<std::size_t>(data.validation.steps), 0.0f);
    trained.figures.auc = statistics::auc(constant, task.validation);
  } else {
    fit_network(config, data, task, trained, trained.figures, progress);
    const auto [calibration, errors] = calibrate_network(task, data, trained);
    trained.info.calibration = calibration;
    trained.figures.calibration_error = errors;
    trained.figures.auc =
        statistics::auc(risks(outputs(trained, task.prefix, data.validation)), task.validation);
  }
  if (config.detector.escalate) train_escalation(config, data, trained, progress);
  return trained;
}

}  // namespace dgap::trainer
