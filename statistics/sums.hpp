#pragma once
#include <cstdint>

/// Vectorised f64 loops with one order of sums at every dispatch level. Private to statistics/.
namespace dgap::statistics {

/// out[i] = exp(z[i] - lse)
void exponentiate(const float* z, std::int64_t count, double lse, double* out);

double sum(const double* x, std::int64_t count);

/// Sum of p (z - other) over the tokens of p > 0.
double cross_term(const double* p, const float* z, const float* other, std::int64_t count);

/// Sum of (p / p_mass - q / q_mass)^2.
double squared_distance(const double* p, double p_mass, const double* q, double q_mass,
                        std::int64_t count);

}  // namespace dgap::statistics
