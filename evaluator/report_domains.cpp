#include "evaluator/report_domains.hpp"

#include <algorithm>

#include "evaluator/plots.hpp"
#include "evaluator/report_format.hpp"

namespace dgap::evaluator {
namespace {

std::string change(double before, double after) {
  const double share = (after - before) / before;
  return "<td>" + significant(after) + " <small>" + (share > 0 ? "+" : "") + percent(share) +
         "</small></td>";
}

std::string domain_row(const std::string& precision, const std::string& domain,
                       const schemas::DomainFigures& d) {
  return "<tr><th>" + escape(precision) + "</th><td>" + escape(domain) + "</td><td>" +
         std::to_string(d.steps) + "</td><td>" + significant(d.kl_before) + "</td>" +
         change(d.kl_before, d.kl_after) + change(d.kl_before, d.kl_always) + "<td>" +
         (d.standard_error > 0 ? percent(d.standard_error / d.kl_before) : "one site") +
         "</td><td>" + (d.harmed ? "harmed" : "") + "</td></tr>";
}

}  // namespace

std::string domains_table(const schemas::Thresholds& thresholds,
                          const std::vector<std::string>& names) {
  const bool several = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return thresholds.at(name).domains.size() > 1;
  });
  if (!several) return "";
  std::string out = "<table>" + row({"precision", "domain", "steps", "KL", "as exported",
                                     "every step corrected", "its standard error", "guard"},
                                    "th");
  for (const std::string& name : names)
    for (const auto& [domain, figures] : thresholds.at(name).domains)
      out += domain_row(name, domain, figures);
  return out + "</table>";
}

}  // namespace dgap::evaluator
