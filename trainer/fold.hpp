#pragma once
#include <cstring>

#include "base/multiversion.hpp"

namespace dgap::trainer {

/// Sum over kLanes lanes, in the one order that sums across lanes have: halves, quarters, eighths.
template <class Real>
DGAP_INLINE Real fold(const Real* lanes) {
  static_assert(base::kLanes == 16);
  typedef Real Eight __attribute__((vector_size(8 * sizeof(Real))));
  typedef Real Four __attribute__((vector_size(4 * sizeof(Real))));
  Eight low, high;
  std::memcpy(&low, lanes, sizeof low);
  std::memcpy(&high, lanes + 8, sizeof high);
  low += high;
  Four first, second;
  std::memcpy(&first, &low, sizeof first);
  std::memcpy(&second, reinterpret_cast<const char*>(&low) + sizeof first, sizeof second);
  first += second;
  return (first[0] + first[2]) + (first[1] + first[3]);
}

}  // namespace dgap::trainer
