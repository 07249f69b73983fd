#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "calibrator/coverage_surface.hpp"
#include "schemas/results/results.hpp"
#include "schemas/trace/trace.hpp"

namespace dgap::calibrator {

/// Windows of a size per step: the smallest K <= K_b whose predicted coverage suffices. Coverage is
/// predicted from the quantised decode alone, as a non-decreasing function of m_q(K), the mass that
/// its own top K hold; so "suffices" is m_q(K) >= theta for one theta, whatever the function. theta
/// is the least of a grid that keeps a share of K_b's mean coverage:
///
///     E c_t(K_t(theta)) >= share x E c_t(K_b),   K_t(theta) = min{K : m_q(K) >= theta or K = K_b}
///
/// Both K_t and c_t(K_t) are non-decreasing in theta, at every step, so the least is well defined;
/// with a confidence it is the one-sided lower bound of the difference that must not be negative,
/// from resampling books (or sites). The grid, 1 - 2^(-i/16), is finest near 1; its last theta is
/// 1, K_b at every step. Memory does not depend on the number of steps.
class AdaptiveCurve {
 public:
  AdaptiveCurve(double alpha, int window);

  void add(const schemas::TracePart& trace, std::size_t precision, std::span<const Site> sites);
  schemas::AdaptiveWindow choose(double share, double confidence, int resamples,
                                 std::uint64_t seed) const;

 private:
  void add_step(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                std::size_t cluster);

  double alpha_;
  int window_;
  std::vector<double> masses_;           // theta, ascending, [G]
  std::vector<double> coverage_, size_;  // sums over steps, [clusters, G]
  std::vector<double> steps_;            // [clusters]
  std::vector<double> held_, covered_;   // m_q(K) and c_t(K) of one step, [K_b]
};

}  // namespace dgap::calibrator
