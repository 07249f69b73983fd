#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/scheme/scheme.hpp"

namespace dgap::engine {

/// Which elements of a layer's tensor [heads, tokens, head_dim] share a scale, as the libraries
/// behind transformers' QuantizedCache reshape it. Where the group size does not divide what is
/// divided, which they refuse, the last groups are smaller.
class HfGroups {
 public:
  HfGroups(const schemas::TensorScheme& tensor, int heads, int head_dim, std::int64_t tokens);
  std::size_t count() const { return count_; }
  /// The next `length` elements have the groups group, group + step, ...
  struct Run {
    std::size_t group, length, step;
  };
  Run run(std::size_t element) const {
    if (kind_ == Kind::consecutive) return {element / group_, group_ - element % group_, 0};
    if (kind_ == Kind::strided) return {element % count_, count_ - element % count_, 1};
    const std::size_t channel = element % width_;
    return {element / width_ / group_ * width_ + channel, width_ - channel, 1};
  }
  /// Elements of a group, in order.
  void elements(std::size_t group, std::vector<std::size_t>& out) const;

 private:
  enum class Kind {
    consecutive,  // quanto's axis 0 and HQQ's axis 1: neighbours in memory
    strided,      // HQQ's axis 0: every count_-th element
    by_channel    // quanto's axis -1: consecutive rows of one channel, heads one after the other
  };
  Kind kind_;
  std::size_t group_, width_, total_, count_;
};

}  // namespace dgap::engine
