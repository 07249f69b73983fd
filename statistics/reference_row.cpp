#include "statistics/reference_row.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "runtime/window.hpp"
#include "statistics/order.hpp"
#include "statistics/sums.hpp"

namespace dgap::statistics {
ReferenceRow::ReferenceRow(std::int64_t width)
    : order_(width), probability_(width), mass_before_(width), scratch_(2 * width) {}

void ReferenceRow::assign(std::span<const float> logits) {
  if (logits.size() != order_.size()) {
    throw base::FailedError("a reference row has " + std::to_string(logits.size()) +
                            " logits, expected " + std::to_string(order_.size()));
  }
  const runtime::RowStatistics statistics = runtime::row_statistics(logits);
  if (!statistics.valid) {
    throw base::FailedError("a reference row has NaN or +inf among its logits, or no finite one");
  }
  logits_ = logits;
  lse_ = statistics.lse;
  entropy_ = statistics.entropy;
  finite_ = statistics.finite;
  sort_row(logits, scratch_.data());
  exponentiate(logits.data(), static_cast<std::int64_t>(logits.size()), lse_, probability_.data());
  double mass = 0.0;
  for (std::size_t rank = 0; rank < order_.size(); ++rank) {
    const std::int32_t id = id_of(scratch_[rank]);
    order_[rank] = id;
    mass_before_[id] = mass;
    mass += probability_[id];
  }
}

std::int64_t ReferenceRow::candidates(double alpha) const {
  const auto finite_end = order_.begin() + finite_;
  const auto end = std::partition_point(order_.begin(), finite_end,
                                        [&](std::int32_t id) { return mass_before_[id] < alpha; });
  return end - order_.begin();
}

double ReferenceRow::kl_to(std::span<const float> other, double other_lse) const {
  const double kl = cross_term(probability_.data(), logits_.data(), other.data(),
                               static_cast<std::int64_t>(logits_.size())) +
                    (other_lse - lse_);
  return kl < 0.0 ? 0.0 : kl;  // rounding; NaN and +inf pass
}

}  // namespace dgap::statistics
