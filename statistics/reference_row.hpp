#pragma once
#include <cstdint>
#include <span>
#include <vector>

/// From full rows of logits to the columns of a trace. Used by the collector, and by whoever
/// recomputes them from full traces.
namespace dgap::statistics {

/// One row of the reference decode, sorted once and used by every precision. The order is (logit
/// descending, id ascending) everywhere; masses are sums of exp(z - lse) in f64 in that order.
/// Holds 36 bytes per logit: meant to be one per thread and reused, not one per step.
class ReferenceRow {
 public:
  /// Reserves for rows of `width` logits, so that assign() does not allocate.
  explicit ReferenceRow(std::int64_t width);
  /// Keeps a reference to `logits` [width], which must outlive its use here. FailedError when a
  /// logit is NaN or +inf, or none is finite.
  void assign(std::span<const float> logits);

  std::span<const float> logits() const { return logits_; }
  double lse() const { return lse_; }  // runtime::row_statistics
  float entropy() const { return entropy_; }
  /// Token ids, all of them: the finite ones first.
  std::span<const std::int32_t> order() const { return order_; }
  double probability(std::int32_t id) const { return probability_[id]; }  // exp(z - lse), f64
  /// Strictly before it in the order.
  double mass_before(std::int32_t id) const { return mass_before_[id]; }
  /// |C(alpha)|: tokens whose mass before is < alpha (arXiv:2607.16248 Eq. 3); a prefix of order().
  /// Tokens of logit -inf are never among them.
  std::int64_t candidates(double alpha) const;
  /// KL(reference || other), nats, f64 sums over the full vocabulary; other_lse from
  /// row_statistics. Exactly 0 for the reference itself, +inf where `other` rules out a token that
  /// the reference does not.
  double kl_to(std::span<const float> other, double other_lse) const;

 private:
  std::span<const float> logits_;
  double lse_ = 0.0;
  float entropy_ = 0.0f;
  std::int64_t finite_ = 0;
  std::vector<std::int32_t> order_;     // [width]
  std::vector<double> probability_;     // [width], by id
  std::vector<double> mass_before_;     // [width], by id
  std::vector<std::uint64_t> scratch_;  // of the sort
};

/// 0-based ranks of `ids` in the order (logit descending, id ascending) of `logits`. scratch is
/// reused.
void ranks_of(std::span<const float> logits, std::span<const std::int32_t> ids, std::int32_t* ranks,
              std::vector<std::uint64_t>& scratch);

}  // namespace dgap::statistics
