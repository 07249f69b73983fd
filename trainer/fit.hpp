#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "base/random.hpp"
#include "schemas/config/config.hpp"
#include "schemas/results/trained.hpp"
#include "trainer/objective.hpp"

namespace dgap::trainer {

/// A loss and the steps that it is averaged over.
struct Split {
  const Objective<float>* objective = nullptr;
  std::vector<std::int32_t> steps;
};

/// Mini-batch AdamW with warm-up and cosine decay, gradients clipped to norm 1, early stopping on
/// the validation loss. `parameters` hold the initial values and become those of the best epoch (of
/// the last one when `validation` has no steps; losses there are NaN). `decays` as AdamW takes
/// them. Batches are split into chunks whose gradients are summed in order: the same bytes for any
/// thread count. FailedError naming `name`, epoch and update when a loss or gradient is not finite.
/// Sets the losses, steps and the chosen epoch of `figures`; advances `progress` by
/// training.epochs.
void fit(const std::string& name, const Split& training, const Split& validation,
         const schemas::TrainingConfig& config, std::vector<float> decays,
         std::span<float> parameters, base::Random& random, base::Progress& progress,
         schemas::TrainingFigures& figures);

/// Mean loss over the steps of a split; NaN when it has none.
double mean_loss(const Split& split, std::span<const float> parameters);

}  // namespace dgap::trainer
