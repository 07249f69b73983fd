#pragma once
#include <string>

#include "schemas/results/allocations.hpp"

/// Plots of an allocation as SVG files of their own.
namespace dgap::calibrator {

/// Heat maps, layers across and KV heads down: cost of quantising each head alone, gain of sparing
/// it alone, of keys and of values.
std::string plot(const schemas::Sensitivity& sensitivity);

/// Token accuracy, whole answers and book KL against bits per element; the chosen allocation and
/// the random ones as points.
std::string plot(const schemas::AllocationResults& results);

}  // namespace dgap::calibrator
