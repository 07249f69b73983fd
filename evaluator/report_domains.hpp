#pragma once
#include <string>
#include <vector>

#include "schemas/results/results.hpp"

namespace dgap::evaluator {

/// KL of the validation steps of every domain as decoded, as exported and with every step
/// corrected, and what the guard found; "" where there is but one domain, which other tables show.
/// `names`: precisions in order.
std::string domains_table(const schemas::Thresholds& thresholds,
                          const std::vector<std::string>& names);

}  // namespace dgap::evaluator
