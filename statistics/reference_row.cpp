#include "statistics/reference_row.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/exp.hpp"
#include "statistics/exact_row.hpp"
#include "statistics/sums.hpp"

namespace dgap::statistics {
namespace {

/// KL from a row whose probabilities are p / p_sum.
double kl_of(const double* p, double p_sum, std::span<const float> logits, double lse,
             std::span<const float> other, double other_lse) {
  const double cross = cross_term(p, logits.data(), other.data(), std::ssize(logits));
  const double kl = cross / p_sum + (other_lse - lse);
  return kl < 0.0 ? 0.0 : kl;  // rounding; NaN and +inf pass
}

}  // namespace

ReferenceRow::ReferenceRow(std::int64_t width, std::int64_t top, double alpha)
    : width_(width),
      top_(top),
      alpha_(alpha),
      order_(width),
      exponential_(width),
      mass_before_(width),
      bucket_mass_(RowOrder::kBuckets + 1) {}

void ReferenceRow::assign(std::span<const float> logits) {
  if (static_cast<std::int64_t>(logits.size()) != width_) {
    throw base::FailedError("a reference row has " + std::to_string(logits.size()) +
                            " logits, expected " + std::to_string(width_));
  }
  Exponentials exponentials{exponential_.data()};
  const ExactRow statistics = exact_row(logits, exponentials);
  if (!statistics.valid) {
    throw base::FailedError("a reference row has NaN or +inf among its logits, or no finite one");
  }
  logits_ = logits;
  lse_ = statistics.lse;
  entropy_ = statistics.entropy;
  finite_ = statistics.finite;
  buckets_.assign(logits);
  exponential_sum_ = exponentials.sum;
  sort_beginning();
}

void ReferenceRow::sort_beginning() {
  sorted_ = 0;
  double mass = 0.0;
  std::int32_t b = 0;
  for (; b < RowOrder::kBuckets && (sorted_ < top_ || (mass < alpha_ && sorted_ < finite_)); ++b) {
    for (const std::uint64_t key : buckets_.sorted_keys(b)) {
      const std::int32_t id = id_of(key);
      order_[sorted_++] = id;
      mass_before_[id] = mass;
      mass += base::exp_f64(static_cast<double>(logits_[id]) - lse_);  // as in StepWindow
    }
  }
  summed_ = b;
  bucket_mass_[b] = mass;
  const auto end = order_.begin() + std::min(sorted_, finite_);
  candidates_ = std::partition_point(order_.begin(), end,
                                     [&](std::int32_t id) { return mass_before_[id] < alpha_; }) -
                order_.begin();
}

double ReferenceRow::mass_before(std::int32_t id) {
  const std::int32_t bucket = buckets_.bucket(id);
  if (buckets_.first(bucket) < sorted_) return mass_before_[id];
  buckets_.reach(bucket);
  for (; summed_ < bucket; ++summed_) {
    double sum = 0.0;
    for (const std::uint64_t key : buckets_.keys(summed_)) sum += exponential_[id_of(key)];
    bucket_mass_[summed_ + 1] = bucket_mass_[summed_] + sum / exponential_sum_;
  }
  const std::uint64_t key = order_key(logits_[id], id);
  double sum = 0.0;
  for (const std::uint64_t other : buckets_.keys(bucket)) {
    if (other < key) sum += exponential_[id_of(other)];
  }
  return bucket_mass_[bucket] + sum / exponential_sum_;
}

void ReferenceRow::masses_before(std::span<const std::int32_t> ids, double* masses) {
  buckets_.reach_all(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) masses[i] = mass_before(ids[i]);
}

double ReferenceRow::kl_to(std::span<const float> other, double other_lse) const {
  return kl_of(exponential_.data(), exponential_sum_, logits_, lse_, other, other_lse);
}

double kl_divergence(std::span<const float> reference, double reference_lse,
                     std::span<const float> other, double other_lse) {
  thread_local std::vector<double> probability;
  const std::int64_t width = std::ssize(reference);
  probability.resize(reference.size());
  exponentiate(reference.data(), width, reference_lse, probability.data());
  return kl_of(probability.data(), sum(probability.data(), width), reference, reference_lse, other,
               other_lse);
}

void ranks_of(std::span<const float> logits, std::span<const std::int32_t> ids, std::int32_t* ranks,
              RowOrder& scratch) {
  if (ids.empty()) return;
  scratch.assign(logits);
  scratch.reach_all(ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ranks[i] = static_cast<std::int32_t>(scratch.rank(ids[i]));
}

}  // namespace dgap::statistics
