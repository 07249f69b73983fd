#pragma once
#include <cstdint>
#include <functional>

namespace dgap::engine {

/// Reads rows [from, to) of a tensor of one head into out [to - from, head_dim].
using RowReader = std::function<void(std::int64_t from, std::int64_t to, float* out)>;

}  // namespace dgap::engine
