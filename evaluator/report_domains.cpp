#include "evaluator/report_domains.hpp"

#include <algorithm>

#include "evaluator/plots.hpp"
#include "evaluator/report_format.hpp"

namespace dgap::evaluator {
namespace {

std::string domain_row(const std::string& precision, const std::string& domain,
                       const schemas::DomainFigures& d) {
  const double change = (d.kl_after - d.kl_before) / d.kl_before;
  const double error = d.standard_error / d.kl_before;
  return "<tr><th>" + escape(precision) + "</th><td>" + escape(domain) + "</td><td>" +
         std::to_string(d.steps) + "</td><td>" + significant(d.kl_before) + "</td><td>" +
         significant(d.kl_after) + "</td><td>" + (change > 0 ? "+" : "") + percent(change) +
         "</td><td>" + (error > 0 ? percent(error) : "one site") + "</td><td>" +
         (d.harmed ? "harmed" : "") + "</td></tr>";
}

}  // namespace

std::string domains_table(const std::vector<DomainsOf>& precisions) {
  const bool several = std::any_of(precisions.begin(), precisions.end(),
                                   [](const DomainsOf& p) { return p.second.size() > 1; });
  if (!several) return "";
  std::string out = "<table>" + row({"precision", "domain", "steps", "KL before", "KL after",
                                     "change", "standard error", "guard"},
                                    "th");
  for (const auto& [precision, domains] : precisions)
    for (const auto& [domain, figures] : domains) out += domain_row(precision, domain, figures);
  return out + "</table>";
}

}  // namespace dgap::evaluator
