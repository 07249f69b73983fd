#pragma once
#include <cstdint>
#include <span>
#include <vector>

/// From full rows of logits to the columns of a trace. Used by the collector, and by whoever recomputes them
/// from full traces.
namespace dgap::statistics {

/// One row of the reference decode, sorted once and used by every precision. The order is (logit
/// descending, id ascending) everywhere; masses are sums of exp(z - lse) in f64 in that order.
class ReferenceRow {
 public:
  /// Reserves for rows of `width` logits, so that assign() does not allocate.
  explicit ReferenceRow(std::int64_t width);
  void assign(std::span<const float> logits);

  std::span<const float> logits() const;
  double lse() const;      // runtime::row_statistics
  float entropy() const;
  std::span<const std::int32_t> order() const;  // token ids, all of them
  double probability(std::int32_t id) const;    // exp(z - lse), f64
  double mass_before(std::int32_t id) const;    // strictly before it in the order
  /// |C(alpha)|: tokens whose mass before is < alpha (arXiv:2607.16248 Eq. 3); a prefix of order().
  std::int64_t candidates(double alpha) const;
  /// KL(reference || other), nats, f64 sums over the full vocabulary; other_lse from row_statistics.
  double kl_to(std::span<const float> other, double other_lse) const;
};

/// 0-based ranks of `ids` in the order (logit descending, id ascending) of `logits`. scratch is reused.
void ranks_of(std::span<const float> logits, std::span<const std::int32_t> ids, std::int32_t* ranks,
              std::vector<std::uint64_t>& scratch);

}  // namespace dgap::statistics
