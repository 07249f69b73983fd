#pragma once
#include <cstdint>

/// Finite-sample bounds on the mean of a loss in [0, 1] from `count` independent values of which
/// `mean` is the average. No assumption on the loss's distribution.
namespace dgap::statistics {

/// Hoeffding-Bentkus p-value of the hypothesis that the expected loss exceeds `limit` in (0, 1)
/// (arXiv:2110.01052, Prop. 1): min(exp(-n h(min(mean, limit), limit)), e P[Bin(n, limit) <=
/// ceil(n mean)]) with h the divergence of two coins. It never falls as `mean` grows.
double hoeffding_bentkus(double mean, std::int64_t count, double limit);

/// Smallest limit whose p-value is at most `delta`, to 1e-9: the expected loss is below it with
/// probability 1 - delta at least. 1 where nothing less is.
double upper_bound(double mean, std::int64_t count, double delta);

}  // namespace dgap::statistics
