#pragma once
#include <functional>
#include <span>
#include <string>

#include "base/progress.hpp"
#include "collector/schedule.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::collector {

/// What the calibration of cache schemes is made with.
struct CalibrationSource {
  const schemas::Config& config;
  const Schedule& schedule;
  const engine::Tokenizer& tokenizer;
  std::function<const engine::Decoder&()> decoder;  // opened when it is first asked for
  std::function<std::span<const std::int32_t>(std::size_t book)> ids;
};

/// Tokens of one window: `calibration.tokens`, or as many as suit the model, BOS included.
std::int64_t calibration_tokens(const schemas::Config& config, std::int64_t hidden_size,
                                std::int64_t context_length);

/// Makes the calibration files (schemas/config/calibrated.hpp) that the configuration's schemes
/// need and that are not there: `calibration.windows` windows of training text go through the
/// model, and their exact keys and values give thresholds and levels. FailedError where one that is
/// there was made of another model.
void make_calibrations(const CalibrationSource& source, base::Progress& progress);

}  // namespace dgap::collector
