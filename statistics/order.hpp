#pragma once
#include <bit>
#include <cstdint>
#include <span>

#include "base/multiversion.hpp"

/// The one order of tokens: logit descending, id ascending. Private to statistics/.
namespace dgap::statistics {

/// A key that is smaller the larger the logit is. -0 and +0 are equal logits and have one key;
/// -inf comes last.
DGAP_INLINE std::uint32_t descending_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);  // -0 + 0 = +0
  return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

/// Key and id in one integer: smaller is earlier in the order, and equal only for the same token.
DGAP_INLINE std::uint64_t order_key(float logit, std::int32_t id) {
  return std::uint64_t{descending_key(logit)} << 32 | static_cast<std::uint32_t>(id);
}

/// The order_key of every logit, sorted: `scratch` holds 2 * logits.size(), and the result is its
/// first half. The second half is free afterwards.
void sort_row(std::span<const float> logits, std::uint64_t* scratch);

/// The id in an order_key.
inline std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key & 0xffffffffu);
}

}  // namespace dgap::statistics
