#include "engine/cache/hf_groups.hpp"

#include <algorithm>

namespace dgap::engine {
namespace {

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

HfGroups::HfGroups(const schemas::TensorScheme& tensor, int heads, int head_dim,
                   std::int64_t tokens)
    : kind_(tensor.axis == schemas::GroupAxis::token      ? Kind::consecutive
            : tensor.quantizer == schemas::Quantizer::hqq ? Kind::strided
                                                          : Kind::by_channel),
      group_(static_cast<std::size_t>(tensor.group_size)),
      width_(static_cast<std::size_t>(head_dim)),
      total_(static_cast<std::size_t>(heads) * static_cast<std::size_t>(tokens) * width_),
      count_(kind_ == Kind::by_channel ? divide_up(total_ / width_, group_) * width_
                                       : divide_up(total_, group_)) {}

void HfGroups::elements(std::size_t group, std::vector<std::size_t>& out) const {
  out.clear();
  std::size_t first = group, step = count_;
  if (kind_ == Kind::consecutive) first = group * group_, step = 1;
  if (kind_ == Kind::by_channel)
    first = group / width_ * group_ * width_ + group % width_, step = width_;
  for (std::size_t e = first; e < total_ && out.size() < group_; e += step) out.push_back(e);
}

}  // namespace dgap::engine
