#pragma once
#include <vector>

#include "engine/backend/cpu/kernels.hpp"

namespace dgap::testing {

/// The instruction sets that this machine can run.
inline std::vector<engine::Isa> isas() {
  std::vector<engine::Isa> list;
  for (int i = 0; i <= static_cast<int>(engine::detected_isa()); ++i)
    list.push_back(static_cast<engine::Isa>(i));
  return list;
}

}  // namespace dgap::testing
