#pragma once
#include <cstdint>
#include <vector>

#include "runtime/row.hpp"

/// Where a row's largest logits are. The row lies in blocks of kLength rows of kColumns logits, and
/// the maxima of its columns, an eighth of it, are what is searched. Private to runtime/.
namespace dgap::runtime {

/// Keys whose descending order is (logit descending, id ascending); -0 equals +0.
std::int32_t id_of(std::uint64_t key);
float logit_of(std::uint64_t key);
/// The smallest float above the one in `key`; NaN, which no logit reaches, above +inf.
float next_above(std::uint64_t key);

class RowColumns {
 public:
  static constexpr int kColumns = 64, kLength = 8, kBlock = kColumns * kLength;

  /// Rows of `width` logits.
  explicit RowColumns(std::int64_t width);

  /// The row, of the width, must outlive what is asked of it. Returns its largest logit, NaN aside.
  float assign(const Row& logits);

  /// What at least k logits reach, and few more do; all finite ones do where rows are short.
  float bound(std::int64_t k);

  float logit(std::int32_t id) const { return logits_[id]; }

  /// Collects keys of the logits that reach a bound, block by block, ids ascending from block to
  /// block: before the first column of a block `room` is asked with the number of keys so far; it
  /// may take some away and raise the bound, and returns how many are left. `keys` has room for a
  /// block and one more than `room` leaves. Returns the number of keys.
  template <class F>
  std::int64_t collect(float bound, std::uint64_t* keys, const F& room) {
    mark_hits(bound);
    std::int64_t count = 0, block = -1;
    for (std::int64_t first = next_word(0); first < std::ssize(hits_);
         first = next_word(first + kWord)) {
      if (first / kColumns != block) count = room(count, bound);
      block = first / kColumns;
      for (std::int64_t column = first; column < first + kWord; ++column) {
        if (hits_[column] != 0) count += collect_column(column, bound, keys + count);
      }
    }
    return count;
  }

 private:
  static constexpr std::int64_t kWord = sizeof(std::uint64_t);

  void mark_hits(float bound);
  /// The first kWord columns at or after `from` with a hit; the number of columns if none.
  std::int64_t next_word(std::int64_t from) const;
  std::int64_t collect_column(std::int64_t column, float bound, std::uint64_t* keys) const;

  Row logits_;
  std::vector<float> maxima_;       // [blocks x kColumns]
  std::vector<std::uint8_t> hits_;  // by column: 1 where its maximum reaches the bound
  std::vector<float> largest_;      // of groups of columns, at most half as many
};

}  // namespace dgap::runtime
