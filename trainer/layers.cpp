#include "trainer/layers.hpp"

#include "trainer/dense.hpp"

namespace dgap::trainer {

template <class Real>
void layer_forward(const LayerSlots& layer, const Real* parameters, const Real* x, Real* y,
                   const Segments& s) {
  multiply({layer.inputs, 1, layer.outputs, layer.inputs}, parameters + layer.weight,
           parameters + layer.bias, x, y, s.columns(), s.stride);
}

template <class Real>
void layer_backward(const LayerSlots& layer, const Real* parameters, const Real* x, const Real* up,
                    Real* down, Real* sums, Real* gradient, const Segments& s) {
  add_weight_gradient(layer.outputs, layer.inputs, up, x, gradient + layer.weight, layer.inputs,
                      s.columns(), s.stride);
  row_sums(layer.outputs, up, sums, s.columns(), s.stride);
  accumulate(sums, gradient + layer.bias, layer.outputs);
  if (down == nullptr) return;
  multiply({1, layer.inputs, layer.inputs, layer.outputs}, parameters + layer.weight,
           static_cast<const Real*>(nullptr), up, down, s.columns(), s.stride);
}

/// starts = bias + sum over the shared inputs, in the runtime's order.
template <class Real>
void first_layer_forward(const NetworkShape& shape, const Real* parameters, const Real* shared,
                         const Real* own, Real* starts, Real* y, const Segments& s) {
  const LayerSlots& layer = shape.layers().front();
  const int common = shape.shared();
  const Weights own_weights{layer.inputs, 1, layer.outputs, shape.own()};
  for (int segment = 0; segment < s.count; ++segment) {
    Real* const start = starts + segment * layer.outputs;
    sum_shared({layer.inputs, 1, layer.outputs, common}, parameters + layer.weight,
               parameters + layer.bias, shared + segment * common, start);
    multiply(own_weights, parameters + layer.weight + common, start, own + segment * s.width,
             y + segment * s.width, s.width, s.stride);
  }
}

template <class Real>
void first_layer_backward(const NetworkShape& shape, const Real* shared, const Real* own,
                          const Real* up, Real* sums, Real* gradient, const Segments& s) {
  const LayerSlots& layer = shape.layers().front();
  const int common = shape.shared();
  add_weight_gradient(layer.outputs, shape.own(), up, own, gradient + layer.weight + common,
                      layer.inputs, s.columns(), s.stride);
  for (int segment = 0; segment < s.count; ++segment) {
    row_sums(layer.outputs, up + segment * s.width, sums, s.width, s.stride);
    accumulate(sums, gradient + layer.bias, layer.outputs);
    const Real* const x = shared + segment * common;
    add_outer(layer.outputs, common, sums, x, gradient + layer.weight, layer.inputs);
  }
}

#define DGAP_LAYERS_OF(Real)                                                                     \
  template void layer_forward(const LayerSlots&, const Real*, const Real*, Real*,                \
                              const Segments&);                                                  \
  template void layer_backward(const LayerSlots&, const Real*, const Real*, const Real*, Real*,  \
                               Real*, Real*, const Segments&);                                   \
  template void first_layer_forward(const NetworkShape&, const Real*, const Real*, const Real*,  \
                                    Real*, Real*, const Segments&);                              \
  template void first_layer_backward(const NetworkShape&, const Real*, const Real*, const Real*, \
                                     Real*, Real*, const Segments&);
DGAP_LAYERS_OF(float)
DGAP_LAYERS_OF(double)
#undef DGAP_LAYERS_OF

}  // namespace dgap::trainer
