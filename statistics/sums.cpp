#include "statistics/sums.hpp"

#include "base/exp.hpp"
#include "base/multiversion.hpp"

namespace dgap::statistics {
namespace {

using base::kLanes;

/// Sum of term(i) over i < count, in lanes that are folded in halves.
template <class Term>
DGAP_INLINE double lane_sum(std::int64_t count, const Term& term) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (int lane = 0; i + lane < count; ++lane) lanes[lane] += term(i + lane);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

DGAP_MULTIVERSION void exponentiate(const float* z, std::int64_t count, double lse, double* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = base::exp_f64(static_cast<double>(z[i]) - lse);
}

DGAP_MULTIVERSION double sum(const double* x, std::int64_t count) {
  return lane_sum(
      count, [x](std::int64_t i) __attribute__((always_inline)) { return x[i]; });
}

DGAP_MULTIVERSION double cross_term(const double* p, const float* z, const float* other,
                                    std::int64_t count) {
  return lane_sum(
      count, [=](std::int64_t i) __attribute__((always_inline)) {
        const double difference = static_cast<double>(z[i]) - static_cast<double>(other[i]);
        return p[i] > 0.0 ? p[i] * difference : 0.0;
      });
}

DGAP_MULTIVERSION double squared_distance(const double* p, double p_mass, const double* q,
                                          double q_mass, std::int64_t count) {
  return lane_sum(
      count, [=](std::int64_t i) __attribute__((always_inline)) {
        const double difference = p[i] / p_mass - q[i] / q_mass;
        return difference * difference;
      });
}

}  // namespace dgap::statistics
