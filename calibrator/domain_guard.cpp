#include "calibrator/domain_guard.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace dgap::calibrator {
namespace {

constexpr double kErrors = 2.0, kShare = 0.02;

/// Sums over the steps of a site.
struct Site {
  double steps = 0, before = 0, after = 0;
};

/// A domain's mean KL before, its change, and the change's standard error.
struct Change {
  double steps = 0, before = 0, difference = 0, error = 0;
  bool harms() const { return difference > std::max(kErrors * error, kShare * before); }
};

Change change_of(std::span<const Site> sites) {
  Change c;
  for (const Site& site : sites) {
    c.steps += site.steps, c.before += site.before, c.difference += site.after - site.before;
  }
  c.before /= c.steps, c.difference /= c.steps;
  double squares = 0.0;
  for (const Site& site : sites) {
    const double deviation = site.after - site.before - site.steps * c.difference;
    squares += deviation * deviation;
  }
  const auto count = static_cast<double>(sites.size());
  if (count > 1) c.error = std::sqrt(squares * count / (count - 1)) / c.steps;
  return c;
}

/// Every domain's change when steps with risk > tau are corrected, those that are escalated alone
/// left as they are; below 0 every step is.
std::map<std::string, Change> changes(const schemas::TracePart& sites,
                                      std::span<const StepOutcome> steps, double tau) {
  std::vector<Site> sums(sites.units.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Site& site = sums[static_cast<std::size_t>(sites.step_unit[i])];
    const StepOutcome& step = steps[i];
    site.steps += 1, site.before += step.before.kl;
    const bool corrected = step.risk > tau && (tau < 0.0 || !step.escalated);
    site.after += (corrected ? step.after : step.before).kl;
  }
  std::map<std::string, std::vector<Site>> by_domain;
  for (std::size_t u = 0; u < sums.size(); ++u)
    if (sums[u].steps > 0) by_domain[sites.units[u].domain].push_back(sums[u]);
  std::map<std::string, Change> domains;
  for (const auto& [name, of_domain] : by_domain) domains.emplace(name, change_of(of_domain));
  return domains;
}

bool harmless(const std::map<std::string, Change>& domains) {
  return std::none_of(domains.begin(), domains.end(),
                      [](const auto& domain) { return domain.second.harms(); });
}

}  // namespace

void guard_domains(const schemas::TracePart& sites, std::span<const StepOutcome> steps,
                   schemas::ThresholdResult& result) {
  const std::map<std::string, Change> asked = changes(sites, steps, result.tau);
  std::map<std::string, Change> now = asked;
  if (result.mode != "off" && !harmless(now)) {
    result.raised_from = result.tau;
    const std::vector<double>& taus = result.curve.tau;  // ascending, up to 1
    for (auto tau = std::upper_bound(taus.begin(), taus.end(), result.tau);
         tau != taus.end() && !harmless(now); ++tau) {
      result.tau = *tau;
      now = changes(sites, steps, *tau);
    }
    const auto at = std::find(taus.begin(), taus.end(), result.tau) - taus.begin();
    const auto point = static_cast<std::size_t>(at);
    const bool helps = result.curve.rate[point] > 0 && result.curve.kl[point] < result.kl_before;
    if (!helps) result.mode = "off";
  }
  const std::map<std::string, Change> always = changes(sites, steps, -1.0);
  for (const auto& [name, all] : always) {
    const bool off = result.mode == "off";
    result.domains[name] = {.steps = static_cast<std::int64_t>(all.steps),
                            .kl_before = all.before,
                            .kl_after = all.before + (off ? 0.0 : now.at(name).difference),
                            .kl_always = all.before + all.difference,
                            .standard_error = all.error,
                            .harmed = asked.at(name).harms()};
  }
}

}  // namespace dgap::calibrator
