#pragma once
#include "base/multiversion.hpp"

namespace dgap::trainer {

/// Sum over kLanes lanes, in the one order that sums across lanes have.
template <class Real>
DGAP_INLINE Real fold(Real* lanes) {
  static_assert(base::kLanes == 16);
  for (int l = 0; l < 8; ++l) lanes[l] += lanes[l + 8];
  for (int l = 0; l < 4; ++l) lanes[l] += lanes[l + 4];
  for (int l = 0; l < 2; ++l) lanes[l] += lanes[l + 2];
  return lanes[0] + lanes[1];
}

}  // namespace dgap::trainer
