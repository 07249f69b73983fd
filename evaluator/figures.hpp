#pragma once
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "evaluator/outcomes.hpp"
#include "statistics/resampling.hpp"

/// From outcomes to the figures of evaluation.json (schemas/results/results-format.md).
namespace dgap::evaluator {

/// Entry of one precision: steps, reference, every kind of decode (as decoded, restored, ceilings, controls),
/// detector, coverage, by_coverage, positive_rate, low_coverage_rate, uncovered_rate.
nlohmann::json figures(std::span<const Outcome> outcomes, double tau);

/// Adds to `detector` how well the risk worked as a probability before it was calibrated as
/// sigmoid(scale f + offset).
void add_uncalibrated(std::span<const Outcome> outcomes, const schemas::RiskScale& calibration,
                      nlohmann::json& detector);

/// Windows of a size per step beside K_b = `most` at every step, under the same networks: mean
/// size, mean coverage, KL as served and of the ceiling.
nlohmann::json adaptive_figures(std::span<const Outcome> outcomes, int most);

/// The same shape with [low, high] in place of every mean: 95 % percentile bootstrap over books (over sites
/// where there are fewer than 20 books).
nlohmann::json intervals(std::span<const Outcome> outcomes, const statistics::Clusters& clusters, double tau,
                         std::uint64_t seed);

/// Shares of steps and mean figures by coverage c_t(K_b), in ten bins of equal width.
nlohmann::json by_coverage(std::span<const Outcome> outcomes);

/// Mean KL before and after, and top-1 agreement, by decode step in at most 16 equal buckets.
nlohmann::json by_step(std::span<const Outcome> outcomes, std::span<const std::int32_t> step_in_unit);

}  // namespace dgap::evaluator
