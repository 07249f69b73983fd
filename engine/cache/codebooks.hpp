#pragma once
#include <span>
#include <vector>

#include "schemas/scheme/scheme.hpp"

/// Levels of the quantisers that look their reads up, ascending.
namespace dgap::engine {

/// Levels in units of a group's scale: of lloyd_max (a unit normal, arXiv:2504.19874), codebook,
/// normal_float (arXiv:2305.14314), iq4_nl, turboquant_mse (sphere_centroids). Empty where the
/// quantiser has none.
std::vector<float> levels_of(const schemas::TensorScheme& tensor, int width);

/// Lloyd-Max centroids, 2^bits <= 16, of one coordinate of a random point on the unit sphere of
/// `width` >= 3 dimensions, whose density is proportional to (1 - y^2)^((width - 3) / 2); to 1e-12
/// (arXiv:2504.19874 section 3.1). Solved once a process.
std::vector<double> sphere_centroids(int bits, int width);

}  // namespace dgap::engine
