#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schemas/results/allocations.hpp"
#include "schemas/results/results.hpp"
#include "schemas/results/trained.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::schemas {

using testing::TemporaryFolder;

template <class Error = base::IoError, class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

inline Windows some_windows() {
  WindowResult r;
  r.window = 64;
  r.alpha = 0.9;
  r.rho_k = 0.8;
  r.coverage_mean = 0.1 + 0.2;
  r.coverage_lower = 0.25;
  r.coverage_confidence = 0.95;
  r.reachable = 0.905;
  r.capped = true;
  r.curve_k = {1, 2, 3};
  r.curve_coverage = {0.1, 1.0 / 3.0, 1e-300};
  r.curve_lower = {0.05, 0.25, 0};
  r.surface_k = {1, 3};
  r.surface_rho = {0.5};
  r.surface = {{0.5, 0.6, {0.1, 0.2}, {0.05, 0.15}, {0}}, {0.9, 0.905, {0.3, 0.6}, {}, {3}}};
  r.positive_rate = 0.5;
  r.uncovered_rate = 0.125;
  r.coverage_quantiles = {0.1, 0.2, 0.3, 0.4, 0.5};
  r.adaptive =
      AdaptiveWindow{0.99, 0.75, 20.5, 0.29, 0.28, {0, 0.75, 1}, {1, 20.5, 64}, {0, .29, .3}};
  WindowResult plain;
  plain.window = 1;
  return {{"K1V1-R32", r}, {"K4V4", plain}};
}

inline Thresholds some_thresholds() {
  ThresholdResult r;
  r.tau = 0.6000000000000001;
  r.policy = "tradeoff";
  r.mode = "off";
  r.drift_before = 0.3;
  r.kl_before = std::numeric_limits<double>::quiet_NaN();
  r.curve = {{0, 0.5, 1}, {1, .5, 0},   {.1, .2, .3},
             {1, 2, 3},   {.4, .5, .6}, {30, std::numeric_limits<double>::infinity(), 50},
             {0, 0, 0},
             {.2, .1, 0}, {.4, .3, 0}};
  r.worse = {25, 0.95, 0.2, 0.5};
  r.raised_from = 0.25;
  r.domains["code"] = {7, 0.5, 0.4, 0.6, 0.01, true};
  r.escalate = Escalation{0.75, 0.125, 0.5, std::numeric_limits<double>::quiet_NaN()};
  ThresholdResult empty;
  empty.policy = "fixed";
  return {{"K1V1", r}, {"K4V4", empty}};
}

/// A detector with a second output.
inline TrainedNetwork some_detector() {
  TrainedNetwork t;
  t.key = "k/K1V1";
  t.info.architecture = "linear", t.info.tensors = "K1V1.detector", t.info.layers = 1;
  t.info.escalate = true, t.info.calibration = RiskScale{0.75, -1.25};
  for (const char* prefix : {"K1V1.detector", "K1V1.detector.escalate"}) {
    t.tensors[prefix + std::string(".0.weight")] = {{1, 2}, {0.5f, -0.25f}};
  }
  t.figures.train_loss = t.figures.validation_loss = {0.5, 0.25};
  t.figures.auc = 0.875;
  t.figures.calibration_error = CalibrationErrors{0.25, 0.125};
  t.figures.escalate_rate = 0.0625, t.figures.escalate_auc = 0.75;
  return t;
}

inline Sensitivity some_sensitivity() {
  const HeadTable table = {{0.1, -0.2}, {0.0, 1e-9}, {3.0, 1.0 / 3.0}};
  Sensitivity s;
  s.key = "k", s.base = "K1V1-R32";
  s.layers = 3, s.kv_heads = 2, s.spared_bits = 4, s.prompts = 12, s.sites = 1;
  s.exact = {0.1, 0, 0.98, 0.9}, s.quantized = {4.5, 0.3, 0.16, 0};
  s.tensors["key"] = {table, table, table, table};
  return s;
}

inline AllocationResults some_allocation_results() {
  AllocationResults r;
  r.base = "K1V1-R32", r.name = "allocated", r.estimator = "greedy";
  r.budget = 1.517;
  r.exact = {0.1, 0, 1, 1};
  r.quantized = {1.25, 0, {4.5, 0.3, 0.16, 0}};
  r.allocated = {1.5166666666666666, 16, {0.3, 0.2, 0.93, 0.5}};
  r.estimators = {{"greedy", r.allocated}, {"spared", r.quantized}};
  r.random = {r.quantized, r.quantized};
  r.curve = {r.quantized, r.allocated};
  return r;
}

}  // namespace dgap::schemas
