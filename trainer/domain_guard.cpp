#include "trainer/domain_guard.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.hpp"

namespace dgap::trainer {
namespace {

struct UnitSums {
  double steps = 0, before = 0, after = 0;
};

schemas::DomainFigures figures(const std::vector<UnitSums>& units) {
  double steps = 0, before = 0, after = 0;
  for (const UnitSums& unit : units) {
    steps += unit.steps, before += unit.before, after += unit.after;
  }
  schemas::DomainFigures d;
  d.steps = static_cast<std::int64_t>(steps);
  d.kl_before = before / steps;
  d.kl_after = after / steps;
  const double difference = d.kl_after - d.kl_before;
  const auto count = static_cast<double>(units.size());
  double squares = 0.0;
  for (const UnitSums& unit : units) {
    const double deviation = unit.after - unit.before - unit.steps * difference;
    squares += deviation * deviation;
  }
  if (count > 1) d.standard_error = std::sqrt(squares * count / (count - 1)) / steps;
  d.harmed = difference > std::max(2.0 * d.standard_error, 0.02 * d.kl_before);
  return d;
}

}  // namespace

std::map<std::string, schemas::DomainFigures> domain_figures(const schemas::TracePart& trace,
                                                             std::span<const double> before,
                                                             std::span<const double> after) {
  std::vector<UnitSums> units(trace.units.size());
  for (std::int64_t step = 0; step < trace.steps(); ++step) {
    UnitSums& unit = units[trace.step_unit[step]];
    unit.steps += 1, unit.before += before[step], unit.after += after[step];
  }
  std::map<std::string, std::vector<UnitSums>> by_domain;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].steps > 0) by_domain[trace.units[u].domain].push_back(units[u]);
  }
  std::map<std::string, schemas::DomainFigures> domains;
  for (const auto& [name, sums] : by_domain) domains.emplace(name, figures(sums));
  return domains;
}

std::string harmed_domains(const std::map<std::string, schemas::DomainFigures>& domains) {
  std::string text;
  for (const auto& [name, d] : domains) {
    if (!d.harmed) continue;
    text += (text.empty() ? "" : ", ") + name + " (KL " + base::number(d.kl_before) + " -> " +
            base::number(d.kl_after) + ")";
  }
  return text;
}

}  // namespace dgap::trainer
