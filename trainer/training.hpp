#pragma once
#include <string>

#include "base/progress.hpp"
#include "schemas/config/config.hpp"
#include "schemas/results/trained.hpp"
#include "schemas/trace/trace.hpp"
#include "trainer/fit_store.hpp"
#include "trainer/samples.hpp"
#include "trainer/standardisation.hpp"

namespace dgap::trainer {

/// Training and validation split of one precision.
struct PrecisionData {
  std::string name;
  double alpha = 0.0;
  schemas::TracePart validation_trace;  // whose exact metrics judge the corrector
  std::size_t precision = 0;            // its columns in validation_trace
  Samples training, validation;
  Standardisation standardisation;  // of the training split
};

/// Detector r = sigmoid(f(phi)) (arXiv:2607.16248 Eq. 6, 10). Architecture "constant", with a
/// warning, when the training labels are empty or of one class. FailedError as fit().
schemas::TrainedNetwork train_detector(const schemas::Config& config, const PrecisionData& data,
                                       base::Progress& progress);

/// Trainings of train_corrector, each of which advances the progress by training.epochs.
std::int64_t corrector_trainings(const schemas::Config& config);

/// Corrector (Eq. 12-18): the best setting of training.search and the best of training.seeds, by
/// validation loss. Architecture "none", with a warning, when the objective has no step to learn
/// from. `store` keeps finished trainings where there are several. FailedError as fit().
schemas::TrainedNetwork train_corrector(const schemas::Config& config, const PrecisionData& data,
                                        base::Progress& progress, const FitStore& store = {});

}  // namespace dgap::trainer
