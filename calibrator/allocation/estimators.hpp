#pragma once
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "base/random.hpp"
#include "calibrator/allocation/bank.hpp"
#include "calibrator/allocation/bit_space.hpp"

namespace dgap::calibrator {

/// Bits that a part may get, and what the loss is expected to fall by.
struct Upgrade {
  std::size_t part = 0;
  int bits = 0;
  double value = 0;
};

/// Value per bit that it adds to the base's mean.
double worth(const BitSpace& space, const Upgrade& upgrade);
/// Bits per element that it adds to an allocation, and whether they are no more than `left`.
double extra(const BitSpace& space, const Upgrade& upgrade, const Bits& now);
bool fits(const BitSpace& space, const Upgrade& upgrade, const Bits& now, double left);

/// Best value per added bit first; equal ones in the order of parts and bits.
std::vector<Upgrade> ranked(const BitSpace& space, std::vector<Upgrade> upgrades);

/// Takes upgrades in their order as long as the mean stays within `budget` bits per element; one
/// that does not fit is passed over. A part keeps the larger of the bits that it is given.
Bits fill(const BitSpace& space, const std::vector<Upgrade>& order, double budget);

/// Every upgrade of the given tensors, in random order, each part with its largest choice.
std::vector<Upgrade> random_order(const BitSpace& space, const schemas::AllocationConfig& config,
                                  base::Random& random);

/// The gain of each upgrade alone, from the all-low-bit cache.
std::vector<Upgrade> spared_upgrades(const Bank& bank, const BitSpace& space,
                                     const schemas::AllocationConfig& config,
                                     const schemas::Sensitivity& sensitivity,
                                     base::Progress& progress);

/// Mean gain of each upgrade when it comes after a random set of others: along random orders of all
/// parts, per case, from the base up to all of them (sampled Shapley values, the discrete form of
/// integrated gradients). Neighbouring cases go through one order from its two ends.
std::vector<Upgrade> path_upgrades(const Bank& bank, const BitSpace& space,
                                   const schemas::AllocationConfig& config, std::uint64_t seed,
                                   base::Progress& progress);

/// Forward selection up to `budget`: of the next eight upgrades of `prior` the best two are
/// kept, the gains of the others become their new rank. The upgrades in the order they were taken,
/// then the rest of `prior`.
std::vector<Upgrade> greedy_order(const Bank& bank, const BitSpace& space,
                                  const schemas::AllocationConfig& config,
                                  const std::vector<Upgrade>& prior, double budget,
                                  base::Progress& progress);

}  // namespace dgap::calibrator
