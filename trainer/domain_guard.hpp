#pragma once
#include <map>
#include <span>
#include <string>

#include "schemas/results/trained.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::trainer {

/// A corrector's KL by domain of the trace's units, from KL before and after of every step, in
/// nats. A domain is harmed where its mean grows by more than max(2 standard errors, 2 %); steps of
/// one site are dependent, so errors come from whole sites.
std::map<std::string, schemas::DomainFigures> domain_figures(const schemas::TracePart& trace,
                                                             std::span<const double> before,
                                                             std::span<const double> after);

/// "code (KL 0.5 -> 0.6)", of every harmed domain; empty where none is.
std::string harmed_domains(const std::map<std::string, schemas::DomainFigures>& domains);

}  // namespace dgap::trainer
