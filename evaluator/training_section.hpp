#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/config/config.hpp"

namespace dgap::evaluator {

/// What <run>/corrector says of the training of every precision's corrector, as HTML: form, size,
/// settings and seeds that were tried, figures by domain.
std::string training_table(const schemas::Config& config);
/// Validation loss against training steps, where training.learning_curve asked for it; else "".
std::string learning_curves(const schemas::Config& config);

/// The files that both read.
std::vector<std::filesystem::path> training_files(const schemas::Config& config);

}  // namespace dgap::evaluator
