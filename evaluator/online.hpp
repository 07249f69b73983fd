#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "evaluator/outcomes.hpp"

namespace dgap::evaluator {

/// The threshold that follows a correction rate (runtime::RateController, one per unit, as a
/// serving stack has one per sequence) beside the fixed one, with the same corrector: rate reached,
/// KL, drift and top-1 agreement over all steps and by book, and how far the rate of a unit is from
/// the budget.
nlohmann::json online_figures(const schemas::TracePart& trace, std::span<const Outcome> outcomes,
                              double tau, const schemas::OnlineRate& online);

}  // namespace dgap::evaluator
