#pragma once
#include <cstdint>
#include <span>

/// The parts of the restorer that the trainer, collector and evaluator share with it, so that what
/// is trained and measured is what is served. No allocation, no exceptions; one fixed order of sums
/// at every dispatch level.
namespace dgap::runtime {

/// One pass over a row of logits. lse and entropy in nats over the finite entries, summed in f64
/// (-inf counts 0); `finite` = number of entries > -inf; `valid` is false for NaN, +inf or no
/// finite entry.
struct RowStatistics {
  double lse = 0.0;
  float entropy = 0.0f;
  std::int64_t finite = 0;
  bool valid = false;
};
RowStatistics row_statistics(std::span<const float> logits);

/// The same, and what its sums are made of, where valid: exponentials [n] = exp(z - maximum), 0 for
/// -inf, and their sum. A token's probability is its share of the sum.
struct Exponentials {
  double* values = nullptr;
  double sum = 0.0;
};
RowStatistics row_statistics(std::span<const float> logits, Exponentials& exponentials);

/// The k largest logits in the order (logit descending, id ascending), -inf never among them.
/// `ids` and `values` hold at least k; returns how many were found (< k when fewer are finite).
/// `scratch` holds at least top_k_scratch(logits.size(), k) bytes, 8-byte aligned.
std::int64_t top_k(std::span<const float> logits, std::int64_t k, std::int32_t* ids, float* values,
                   void* scratch);
std::size_t top_k_scratch(std::int64_t width, std::int64_t k);

/// The least K >= 1 such that the first K of `logits` (descending, not empty) hold `mass` of the
/// row's distribution, whose log-sum-exp is `lse`; all of them where they hold less, or mass is 1.
std::int64_t adaptive_window(std::span<const float> logits, double lse, double mass);

}  // namespace dgap::runtime
