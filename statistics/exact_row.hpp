#pragma once
#include <cstdint>
#include <span>

namespace dgap::statistics {

/// What figures are made of: lse and entropy in nats over the finite logits, every exponential and
/// every sum in f64 (-inf counts 0), so that the KL of a cache of eight bits still has its digits.
/// `finite` = number of entries > -inf; `valid` is false for NaN, +inf or no finite entry. The
/// runtime's own (runtime/row_scan.hpp) are faster and a little less exact.
struct ExactRow {
  double lse = 0.0;
  float entropy = 0.0f;
  std::int64_t finite = 0;
  bool valid = false;
};
ExactRow exact_row(std::span<const float> logits);

/// The same, and what its sums are made of, where valid: exponentials [n] = exp(z - maximum), 0 for
/// -inf, and their sum. A token's probability is its share of the sum.
struct Exponentials {
  double* values = nullptr;
  double sum = 0.0;
};
ExactRow exact_row(std::span<const float> logits, Exponentials& exponentials);

}  // namespace dgap::statistics
