#pragma once
#include <cstdint>
#include <vector>

#include "runtime/row_columns.hpp"
#include "runtime/row_sums.hpp"

/// What is read off whole rows of logits, shared by the restorer and all who measure and train, so
/// that what is trained is what is served. One fixed order of sums at every dispatch level.
namespace dgap::runtime {

/// lse and entropy of a row in nats over the finite entries (-inf counts 0). The largest logits, 64
/// at least, are summed in f64, the others in f32: lse is within 1e-7 of the exact one times the
/// mass of these others. `valid` is false for NaN, +inf or no finite entry.
struct RowStatistics {
  double lse = 0.0;
  float entropy = 0.0f;
  bool valid = false;
};

/// One row at a time, with the scratch of one thread: a pass for the maxima of columns, one for the
/// sums, and a look at the few columns that may hold one of the largest logits. No allocation after
/// construction, no exceptions.
class RowScan {
 public:
  /// Rows of `width` logits, of which the `k` largest are wanted. Statistics do not depend on k.
  RowScan(std::int64_t width, std::int64_t k);

  /// The row, of the width, must outlive what is asked of it.
  RowStatistics assign(const Row& logits);

  /// The k largest logits in the order (logit descending, id ascending), -inf never among them.
  /// `ids` and `values` hold at least k; returns how many were found (< k when fewer are finite).
  std::int64_t top(std::int32_t* ids, float* values);

 private:
  HeadSums head_of(float top, float bound);
  std::int64_t collect_largest();

  std::int64_t k_;
  RowColumns columns_;
  std::int64_t kept_ = 0;            // keys that assign left; 0: too many to keep
  std::vector<std::uint64_t> keys_;  // of the best so far, and a block more
  std::vector<std::int32_t> ranks_;  // of the keys
};

}  // namespace dgap::runtime
