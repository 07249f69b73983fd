#pragma once
#include "collector/paired_block.hpp"
#include "schemas/config/config.hpp"

/// How large a trace becomes, before it is made.
namespace dgap::collector {

/// Of a step with all precisions, on disk.
double trace_bytes_per_step(const schemas::Config& config, const BlockShape& shape);

/// In memory while the largest part is made and written.
double part_bytes(const schemas::Config& config, const BlockShape& shape);

}  // namespace dgap::collector
