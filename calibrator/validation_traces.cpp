#include "calibrator/validation_traces.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/stop.hpp"

namespace dgap::calibrator {

ValidationTraces::ValidationTraces(const schemas::Config& config)
    : traces_(config.run_directory() / "traces"),
      split_(config.corpus.splits.validation),
      hidden_(config.corrector.takes("hidden")) {
  const std::vector<std::string>& collected = traces_.precisions();
  for (const schemas::Scheme& scheme : config.precisions) {
    if (std::find(collected.begin(), collected.end(), scheme.name) == collected.end()) {
      throw base::FailedError("the traces hold no precision '" + scheme.name +
                              "'; run `dgap collect` again");
    }
    precisions_.push_back(scheme.name);
  }
  for (std::size_t part = 0; part < traces_.parts(); ++part) {
    if (traces_.holds(part, split_)) parts_.push_back(part);
  }
  if (parts_.empty()) {
    throw base::FailedError("the traces hold no units of split '" + split_ +
                            "'; see corpus.splits.validation and corpus.sites_per_book");
  }
}

void ValidationTraces::for_each_part(bool candidates, const Visit& visit) const {
  schemas::TraceSelection selection;
  selection.precisions = precisions_;
  selection.reference_candidates = candidates;
  selection.hidden = candidates && hidden_;
  std::vector<std::int64_t> steps;
  for (const std::size_t index : parts_) {
    base::throw_if_stop_requested();
    const schemas::TracePart part = traces_.read(index, selection);
    steps.clear();
    for (std::int64_t step = 0; step < part.steps(); ++step) {
      if (part.units[part.step_unit[step]].split == split_) steps.push_back(step);
    }
    visit(part, steps);
  }
}

void ClusterBuilder::add(const schemas::TracePart& part, std::span<const std::int64_t> steps) {
  std::int32_t last = -1;
  for (const std::int64_t step : steps) {
    if (part.step_unit[step] != last) {
      last = part.step_unit[step];
      units_and_steps_.units.push_back(part.units[last]);
    }
    units_and_steps_.step_unit.push_back(
        static_cast<std::int32_t>(units_and_steps_.units.size() - 1));
  }
}

}  // namespace dgap::calibrator
