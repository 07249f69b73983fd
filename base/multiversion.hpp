#pragma once
#include <cstdint>

/// DGAP_MULTIVERSION before a function compiles it for AVX-512, AVX2 with FMA and the baseline, and
/// picks at load time. Functions are plain loops over fixed arrays of lanes (kLanes accumulators,
/// folded in one order), and the project is built with -ffp-contract=off (what is to be fused says
/// so, base/fused.hpp), so every version gives the same bits. Elsewhere the code is portable.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && \
    !defined(DGAP_NO_MULTIVERSION)
#define DGAP_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DGAP_MULTIVERSION
#endif

/// For helpers that are called from a DGAP_MULTIVERSION function: they must be inlined, or they
/// would be compiled once, for the baseline.
#define DGAP_INLINE inline __attribute__((always_inline))

namespace dgap::base {

inline constexpr int kLanes = 16;

/// n rounded up to whole lanes.
constexpr std::int64_t padded_to_lanes(std::int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

}  // namespace dgap::base
