#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/resampling.hpp"

namespace dgap::calibrator {

/// The validation steps of a run's traces, one part in memory at a time.
class ValidationTraces {
 public:
  /// FailedError when the traces lack one of the configured precisions, or hold no validation unit.
  explicit ValidationTraces(const schemas::Config& config);

  /// The configured precisions; parts hold their columns in this order.
  const std::vector<std::string>& precisions() const { return precisions_; }
  const schemas::TraceHeader& header() const { return traces_.header(); }
  std::int64_t parts() const { return static_cast<std::int64_t>(parts_.size()); }
  std::int64_t books() const { return traces_.books(split_); }

  /// Calls visit(part, rows of validation steps) for the parts in order. Between them it looks
  /// whether a stop was asked for.
  using Visit = std::function<void(const schemas::TracePart& part, std::span<const std::int64_t>)>;
  void for_each_part(bool candidates, const Visit& visit) const;

 private:
  schemas::TraceSet traces_;
  std::string split_;
  bool hidden_;  // whether correctors take hidden states
  std::vector<std::string> precisions_;
  std::vector<std::size_t> parts_;
};

/// Units and steps of the validation split in the order of the visits, to find the clusters of all
/// of them.
class ClusterBuilder {
 public:
  void add(const schemas::TracePart& part, std::span<const std::int64_t> steps);
  /// Units and every step's unit; no other column.
  const schemas::TracePart& sites() const { return units_and_steps_; }
  statistics::Clusters clusters() const { return statistics::clusters(units_and_steps_); }
  std::int64_t steps() const { return units_and_steps_.steps(); }
  std::int64_t units() const { return static_cast<std::int64_t>(units_and_steps_.units.size()); }

 private:
  schemas::TracePart units_and_steps_;
};

}  // namespace dgap::calibrator
