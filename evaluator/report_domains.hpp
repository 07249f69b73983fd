#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schemas/results/trained.hpp"

namespace dgap::evaluator {

/// A precision's name and its corrector's figures by domain, before the guard.
using DomainsOf = std::pair<std::string, std::map<std::string, schemas::DomainFigures>>;

/// KL of the validation steps of every domain before and after correction of every step, and
/// whether the guard found harm; "" where there is but one domain, which other tables show.
std::string domains_table(const std::vector<DomainsOf>& precisions);

}  // namespace dgap::evaluator
