#pragma once
#include <cstdint>
#include <vector>

#include "trainer/network_shape.hpp"

/// One dense layer of a NetworkShape, forward and reverse, over matrices of columns (dense.hpp).
namespace dgap::trainer {

/// Segments of `width` columns each, in matrices with rows `stride` apart.
struct Segments {
  int count = 0;
  std::int64_t width = 0, stride = 0;
  std::int64_t columns() const { return count * width; }
};

/// y = b + W x
template <class Real>
void layer_forward(const LayerSlots& layer, const Real* parameters, const Real* x, Real* y,
                   const Segments& s);

/// Adds the gradients of weights and bias to `gradient`; sets `down` (unless null) to that of x.
/// `sums` [outputs] is scratch.
template <class Real>
void layer_backward(const LayerSlots& layer, const Real* parameters, const Real* x, const Real* up,
                    Real* down, Real* sums, Real* gradient, const Segments& s);

/// The first layer, whose first inputs are common to the columns of a segment: `shared` [segments,
/// shape.shared()], `own` the other inputs' columns, `starts` [segments, outputs] scratch.
template <class Real>
void first_layer_forward(const NetworkShape& shape, const Real* parameters, const Real* shared,
                         const Real* own, Real* starts, Real* y, const Segments& s);
template <class Real>
void first_layer_backward(const NetworkShape& shape, const Real* shared, const Real* own,
                          const Real* up, Real* sums, Real* gradient, const Segments& s);

}  // namespace dgap::trainer
