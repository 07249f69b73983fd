#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "schemas/config/config.hpp"

/// What `dgap allocate` finds out (docs/allocation.md): sensitivity.json, and
/// allocation_results.json beside the allocation file, each with a JSON Schema in this folder.
namespace dgap::schemas {

/// Means over prompts (nll per answer token, token: share of answer tokens right, exact: of whole
/// answers) and over sites of book text (kl, nat per step).
struct AllocationLoss {
  double nll = 0, kl = 0, token = 0, exact = 0;
};

/// A number per layer and KV head.
using HeadTable = std::vector<std::vector<double>>;

/// What a tensor's heads cost and gain, each alone: quantised among exact ones, `cost_*` more than
/// none; spared (given `spared_bits`) among quantised ones, `gain_*` less than none.
struct TensorSensitivity {
  HeadTable cost_nll, cost_kl, gain_nll, gain_kl;  // [layers][kv_heads]
};

struct Sensitivity {
  std::string key;   // of the settings it was measured under
  std::string base;  // precision
  int layers = 0, kv_heads = 0, spared_bits = 0;
  int prompts = 0, sites = 0;
  AllocationLoss exact, quantized;                   // of the exact cache, and of the base
  std::map<std::string, TensorSensitivity> tensors;  // key, value
};
void write_sensitivity(const std::filesystem::path& file, const Sensitivity& sensitivity);
Sensitivity read_sensitivity(const std::filesystem::path& file);

/// One allocation, measured on the validation cases.
struct AllocationPoint {
  double bits = 0;  // per element, codes and scales, mean of keys and values
  int parts = 0;    // tensors of a layer and head with other bits than the base's
  AllocationLoss loss;
};

struct AllocationResults {
  std::string base, name, estimator;  // the estimator that was chosen
  double budget = 0, floor = 0;
  AllocationLoss exact;
  AllocationPoint quantized, allocated;               // the base, and what was chosen
  std::map<std::string, AllocationPoint> estimators;  // of each that was tried, same budget
  std::vector<AllocationPoint> random;                // control, same budget
  std::vector<AllocationPoint> curve;                 // of the chosen order, ascending bits
};
void write_allocation_results(const std::filesystem::path& file, const AllocationResults& results);
AllocationResults read_allocation_results(const std::filesystem::path& file);

/// The configuration that later stages work under: with the precision of <run>/allocation.json
/// behind its own, and without the wish for one. As it is where no allocation is wanted.
/// FailedError where the file is missing.
Config with_allocation(Config config);

}  // namespace dgap::schemas
