#pragma once
#include <string>
#include <utility>
#include <vector>

namespace dgap::evaluator {

/// The finished pieces of the report, as HTML; render() puts them on one self-contained page.
struct PageContent {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // plain text
  std::string damage, coverage, bars, repair, thresholds, by_step, controls, by_coverage,
      reliability, domains, escalation, online, windows, retrieval, training, learning_curves;
};
std::string render(const PageContent& content);

}  // namespace dgap::evaluator
