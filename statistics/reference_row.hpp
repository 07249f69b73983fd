#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "statistics/order.hpp"

/// From full rows of logits to the columns of a trace. Used by the collector, and by whoever
/// recomputes them from full traces.
namespace dgap::statistics {

/// One row of the reference decode, ordered once and used by every precision. The order is (logit
/// descending, id ascending) everywhere; masses are f64 sums of exp(z - lse). It is sorted no
/// deeper than a trace needs: the first `top` tokens, and C(alpha). Holds 30 bytes per logit: meant
/// to be one per thread and reused, not one per step.
class ReferenceRow {
 public:
  /// Reserves for rows of `width` logits, so that assign() does not allocate. top <= width.
  ReferenceRow(std::int64_t width, std::int64_t top, double alpha);
  /// Keeps a reference to `logits` [width], which must outlive its use here. FailedError when a
  /// logit is NaN or +inf, or none is finite.
  void assign(std::span<const float> logits);

  std::span<const float> logits() const { return logits_; }
  double lse() const { return lse_; }  // exact_row
  float entropy() const { return entropy_; }
  std::int64_t finite() const { return finite_; }  // tokens of logit > -inf
  /// The beginning of the order, at least its first `top` tokens and C(alpha).
  std::span<const std::int32_t> order() const {
    return {order_.data(), static_cast<std::size_t>(sorted_)};
  }
  /// Strictly before it in the order: f64 sum of exp(z - lse) in that order within order(), bucket
  /// by bucket beyond.
  double mass_before(std::int32_t id);
  void masses_before(std::span<const std::int32_t> ids, double* masses);
  /// C(alpha): tokens whose mass before is < alpha (arXiv:2607.16248 Eq. 3); a prefix of order().
  /// Tokens of logit -inf are never among them.
  std::span<const std::int32_t> candidates() const {
    return order().first(static_cast<std::size_t>(candidates_));
  }
  /// KL(reference || other), nats, f64 sums over the full vocabulary; other_lse from
  /// exact_row. Exactly 0 for the reference itself, +inf where `other` rules out a token that
  /// the reference does not.
  double kl_to(std::span<const float> other, double other_lse) const;

 private:
  void sort_beginning();

  std::int64_t width_ = 0, top_ = 0;
  double alpha_ = 0.0;
  std::span<const float> logits_;
  double lse_ = 0.0;
  float entropy_ = 0.0f;
  std::int64_t finite_ = 0, sorted_ = 0, candidates_ = 0;
  std::int32_t summed_ = 0;  // bucket_mass_ is known up to here
  RowOrder buckets_;
  std::vector<std::int32_t> order_;  // [width], the first sorted_ are set
  std::vector<double> exponential_;  // [width], by id: exp(z - maximum)
  double exponential_sum_ = 0.0;
  std::vector<double> mass_before_;  // [width], by id, where sorted
  std::vector<double> bucket_mass_;  // [kBuckets + 1], strictly before each bucket
};

/// The same of a reference row of which only its logits and their log-sum-exp were kept.
double kl_divergence(std::span<const float> reference, double reference_lse,
                     std::span<const float> other, double other_lse);

/// 0-based ranks of `ids` in the order (logit descending, id ascending) of `logits`. scratch is
/// reused.
void ranks_of(std::span<const float> logits, std::span<const std::int32_t> ids, std::int32_t* ranks,
              RowOrder& scratch);

}  // namespace dgap::statistics
