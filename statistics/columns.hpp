#pragma once
#include "schemas/trace/trace.hpp"

namespace dgap::statistics {

/// Computes every compact column of a full trace anew from its logits: the proof that compact and
/// full traces say the same. `alpha_max` is the trace.alpha_max that it was collected with. Columns
/// that are not computed from logits (steps, units, hidden states) are kept. FailedError when the
/// part holds no logits.
void recompute_columns(schemas::TracePart& part, double alpha_max);

}  // namespace dgap::statistics
