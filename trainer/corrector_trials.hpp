#pragma once
#include <cstdint>
#include <vector>

#include "base/progress.hpp"
#include "trainer/fit_store.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {

/// About `share` of the steps, in whole runs of 64, spread evenly.
std::vector<std::int32_t> share_of(const std::vector<std::int32_t>& steps, double share);

/// Steps that the objective learns from: `paper` the risky ones, `extended` all.
std::vector<std::int32_t> steps_of(const Samples& samples, bool extended);

/// Trains what training.search, training.learning_curve and training.seeds ask for, each from its
/// own random numbers, and gives the network with the lowest validation loss, with figures about
/// all of it. Its architecture is `none` where no epoch improved on changing nothing. `blank`: what
/// every network has. FailedError as fit(), and where there is something to choose and there are no
/// validation steps.
schemas::TrainedNetwork best_corrector(const schemas::Config& config, const PrecisionData& data,
                                       const schemas::TrainedNetwork& blank, const FitStore& store,
                                       base::Progress& progress);

}  // namespace dgap::trainer
