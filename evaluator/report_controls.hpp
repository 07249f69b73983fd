#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

/// Pieces of the report that say what the other figures are worth; `names`: precisions in order.
namespace dgap::evaluator {

/// KL of every control and ceiling beside that of the uncorrected decode.
std::string controls_table(const nlohmann::json& evaluation, const std::vector<std::string>& names);

/// What the detector's second output finds; "" where no precision has one.
std::string escalation_table(const nlohmann::json& evaluation,
                             const std::vector<std::string>& names);

/// Correction rate and KL of the threshold that follows a rate beside the fixed one, by book; ""
/// where no precision has an online rate.
std::string online_table(const nlohmann::json& evaluation, const std::vector<std::string>& names);

/// Windows of a size per step beside K_b under the same networks; "" where no precision has them.
std::string window_table(const nlohmann::json& evaluation, const std::vector<std::string>& names);

/// Per precision: how coverage is distributed, and KL before, after and at the ceiling by coverage.
std::string coverage_plots(const nlohmann::json& evaluation, const std::vector<std::string>& names);

/// Frequency of risky steps by the detector's score, all precisions; "" where there are no scores.
std::string reliability_plot(const nlohmann::json& evaluation,
                             const std::vector<std::string>& names);

}  // namespace dgap::evaluator
