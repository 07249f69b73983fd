#pragma once
#include "base/multiversion.hpp"

namespace dgap::base {

/// a b + c in one rounding: one instruction where DGAP_MULTIVERSION compiles for a processor that
/// has it, the C library's exact (and slow) function elsewhere. Networks take every product through
/// it, so they have the same bits everywhere. In double precision, which only checks gradients, in
/// two roundings: fast everywhere.
DGAP_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DGAP_INLINE double multiply_add(double a, double b, double c) { return a * b + c; }

}  // namespace dgap::base
