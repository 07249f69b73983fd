#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/bundle/bundle.hpp"
#include "schemas/results/results.hpp"

namespace dgap::calibrator {

/// What the validation figures of a bundle rest on.
struct ValidationBasis {
  std::int64_t steps = 0, units = 0, books = 0;
  std::vector<std::int32_t> contexts;  // prefix lengths, ascending
};

/// One precision of the card.
struct CardEntry {
  std::string name;
  double bits_key = 0, bits_value = 0;  // codes and scales, per element
  const schemas::WindowResult* window = nullptr;
  const schemas::ThresholdResult* threshold = nullptr;
};

/// Means over the validation steps: as decoded, and as the bundle serves them.
struct Headline {
  double kl_before = 0, kl_after = 0, drift_before = 0, drift_after = 0;
  double top1_before = 0, top1_after = 0, perplexity_before = 0, perplexity_after = 0;
  double correction_rate = 0, kl_worse_share = 0;
};
Headline headline(const schemas::ThresholdResult& threshold);

/// The bundle's README.md: front matter for model hubs, the figures, and what they do not say.
std::string model_card(const schemas::BaseModel& model, const std::vector<CardEntry>& entries,
                       const ValidationBasis& basis);

}  // namespace dgap::calibrator
