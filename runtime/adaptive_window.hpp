#pragma once
#include <cstdint>
#include <span>

namespace dgap::runtime {

/// The least K >= 1 such that the first K of `logits` (descending, not empty) hold `mass` of the
/// row's distribution, whose log-sum-exp is `lse`; all of them where they hold less, or mass is 1.
std::int64_t adaptive_window(std::span<const float> logits, double lse, double mass);

}  // namespace dgap::runtime
