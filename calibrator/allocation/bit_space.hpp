#pragma once
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "schemas/scheme/allocation.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::calibrator {

/// One tensor of one layer and KV head: what gets bits of its own.
struct Part {
  int layer = 0, head = 0;
  bool value = false;
};

/// Bits of every part; kBaseBits where the base scheme's tensor stays as it is.
using Bits = std::vector<int>;
inline constexpr int kBaseBits = 0;
inline constexpr int kExactBits = 16;

/// The allocations of a scheme without overrides on a model of a given shape. Parts are numbered
/// (layer, head, tensor), keys before values.
class BitSpace {
 public:
  BitSpace(const schemas::Scheme& base, int layers, int kv_heads);

  std::size_t size() const { return static_cast<std::size_t>(2 * layers_ * kv_heads_); }
  int layers() const { return layers_; }
  int kv_heads() const { return kv_heads_; }
  Part part(std::size_t index) const;
  std::size_t index(const Part& part) const;
  const schemas::Scheme& base() const { return base_; }

  Bits all(int bits) const { return Bits(size(), bits); }
  /// The base with these bits: overrides of as few lines as there are heads and widths.
  schemas::Allocation allocation(const Bits& bits) const;
  schemas::Scheme scheme(const Bits& bits) const;

  /// Bits per element, codes and scales, of a tensor whose part has `bits`; once, from a cache.
  void set_width(bool value, int bits, double bits_per_element);
  /// The same, mean over all parts, keys and values alike.
  double bits_per_element(const Bits& bits) const;
  /// What `bits` in one part add to that mean.
  double added(const Part& part, int bits) const;

 private:
  double width(bool value, int bits) const { return widths_.at({value, bits}); }

  schemas::Scheme base_;
  int layers_, kv_heads_;
  std::map<std::pair<bool, int>, double> widths_;
};

}  // namespace dgap::calibrator
