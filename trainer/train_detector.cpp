#include <numeric>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "statistics/resampling.hpp"
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

/// Area under the ROC curve of what will be served, on the validation steps.
double validation_auc(const schemas::TrainedNetwork& network, const Samples& samples) {
  const runtime::Detector detector(network.info, network.tensors);
  std::vector<float> scratch(detector.scratch_floats());
  std::vector<float> risks(static_cast<std::size_t>(samples.steps));
  for (std::int64_t step = 0; step < samples.steps; ++step) {
    risks[step] = detector.risk(samples.features.data() + step * kDetectorWidth, scratch.data());
  }
  return statistics::auc(risks, samples.label);
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

void fit_network(const schemas::Config& config, const PrecisionData& data,
                 schemas::TrainedNetwork& trained, base::Progress& progress) {
  const Samples& samples = data.training;
  const double weight = config.training.positive_weight;
  const bool linear = config.detector.architecture == "linear";
  const NetworkShape shape(0, kDetectorWidth, linear ? std::vector<int>{} : config.detector.hidden,
                           0);
  const DetectorObjective<float> training(samples, data.standardisation, shape, weight);
  const DetectorObjective<float> validation(data.validation, data.standardisation, shape, weight);

  base::Random random(config.run.seed, "detector/" + data.name);
  std::vector<float> parameters(static_cast<std::size_t>(shape.end()));
  shape.initialise(parameters, random);
  const double positives = static_cast<double>(samples.positives());
  parameters.back() = static_cast<float>(  // the untrained network says how frequent y = 1 is
      base::log_f64(weight * positives / (static_cast<double>(samples.steps) - positives)));
  std::vector<float> decays(parameters.size());
  shape.mark_weights(decays);
  fit("precision " + data.name + ", detector", {&training, all_steps(samples)},
      {&validation, all_steps(data.validation)}, config.training, std::move(decays), parameters,
      random, progress, trained.figures);

  trained.info.architecture = config.detector.architecture;
  trained.info.layers = static_cast<int>(shape.layers().size());
  shape.store(parameters, data.standardisation.mean, data.standardisation.scale,
              trained.info.tensors, trained.tensors);
}

}  // namespace

schemas::TrainedNetwork train_detector(const schemas::Config& config, const PrecisionData& data,
                                       base::Progress& progress) {
  const auto steps = static_cast<double>(data.training.steps);
  const auto positives = static_cast<double>(data.training.positives());
  schemas::TrainedNetwork trained;
  trained.info.tensors = data.name + ".detector";
  trained.figures.positive_weight = config.training.positive_weight;
  trained.figures.positive_rate = steps > 0 ? positives / steps : 0.0;
  if (positives == 0 || positives == steps) {
    make_constant(data, trained, progress);
    progress.advance(config.training.epochs);
  } else {
    fit_network(config, data, trained, progress);
  }
  trained.figures.auc = validation_auc(trained, data.validation);
  return trained;
}

}  // namespace dgap::trainer
