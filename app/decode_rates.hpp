#pragma once
#include <vector>

#include "collector/work.hpp"
#include "schemas/config/config.hpp"

namespace dgap::app {

/// How fast this machine decodes.
struct DecodeRates {
  collector::Rate prefill, reference;     // over the exact cache
  std::vector<collector::Rate> prefills;  // of the precisions with `prefill: quantized`
  std::vector<collector::Rate> decodes;   // of every precision
};

/// From short decodes of the configuration's own model and schemes, at two lengths of at most 2,048
/// tokens.
DecodeRates measure_decode_rates(const schemas::Config& config);

}  // namespace dgap::app
