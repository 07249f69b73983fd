#pragma once
#include "engine/formats/json_values.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// RoPE of a config.json: rope_theta, rope_scaling and rope_parameters (the newer name of both
/// together). `p` gives the context length, and takes notes. UsageError for types of scaling that
/// are not known, IoError for parameters that are missing, left over or contradictory.
RopeParameters read_hf_rope(JsonValues& config, HyperParameters& p);

}  // namespace dgap::engine
