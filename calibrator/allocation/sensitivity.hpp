#pragma once
#include "base/progress.hpp"
#include "calibrator/allocation/bank.hpp"
#include "calibrator/allocation/bit_space.hpp"

namespace dgap::calibrator {

/// The loss that bits are chosen to lower: nats per answer token plus `book_weight` times nats per
/// step of book text.
inline double total(const AllocationLoss& loss, double book_weight) {
  return loss.nll + book_weight * loss.kl;
}

/// What quantising each part alone costs, and what sparing it alone gains at `spared_bits`, for the
/// given tensors; two decodes per part and case.
schemas::Sensitivity measure_sensitivity(const Bank& bank, const BitSpace& space,
                                         const std::vector<std::string>& tensors, int spared_bits,
                                         base::Progress& progress);

}  // namespace dgap::calibrator
