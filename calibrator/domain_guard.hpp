#pragma once
#include <span>

#include "calibrator/threshold_curve.hpp"
#include "schemas/results/results.hpp"
#include "schemas/trace/trace.hpp"

/// What a corrector does to every domain of the validation split: one that repairs novels meets
/// code and chat in service.
namespace dgap::calibrator {

/// Puts the domains' figures into the result and, where a domain is made worse at its tau, raises
/// tau to the next one of the curve at which none is; the mode is `off` where that corrects
/// nothing. Worse: by more than max(2 standard errors, 2 %) of the domain's mean KL. Errors come
/// from whole sites, since steps of one site are dependent; a domain of one site has none.
///
/// `sites`: the units of `steps`, with their domains, and every step's unit.
void guard_domains(const schemas::TracePart& sites, std::span<const StepOutcome> steps,
                   schemas::ThresholdResult& result);

}  // namespace dgap::calibrator
