#pragma once
#include <cstdint>
#include <vector>

#include "engine/cache/row_reader.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::engine {

/// The channels of one head that turboquant with outlier_bits treats as an instance of their own:
/// those of the largest RMS over a prefix, moved before the others; both keep their order. Empty,
/// and without effect, in other schemes.
class Outliers {
 public:
  Outliers() = default;
  /// Over rows [begin, end); of equal channels, and without rows, the lower ones.
  Outliers(const schemas::TensorScheme& tensor, int head_dim, std::int64_t begin, std::int64_t end,
           const RowReader& read);

  /// x [rows, head_dim]: channels into the order of the codes, and back, in place.
  void first(std::int64_t rows, float* x) const;
  void back(std::int64_t rows, float* x) const;
  /// The order: channel order()[i] comes at place i.
  const std::vector<std::uint16_t>& order() const { return order_; }
  /// An index of two bytes for each outlier says it all.
  std::int64_t bytes() const { return 2 * count_; }

 private:
  std::int64_t count_ = 0;
  std::vector<std::uint16_t> order_;
};

}  // namespace dgap::engine
