#pragma once
#include <span>
#include <string>
#include <vector>

#include "trainer/network_shape.hpp"

namespace dgap::trainer {

/// The part of a candidate's change that depends on which token it is (runtime::TokenTerm): e_v .
/// u, with a learned vector e_v per vocabulary entry and a query u = b + W x of the step.
/// Parameters from `first` on: vectors [vocabulary, rank], weight [rank, inputs], bias [rank].
class TokenShape {
 public:
  TokenShape(std::int64_t vocabulary, int rank, int inputs, std::int64_t first)
      : vocabulary_(vocabulary),
        first_(first),
        query_(0, inputs, {}, first + vocabulary * rank, rank) {}

  std::int64_t vocabulary() const { return vocabulary_; }
  int rank() const { return slots().outputs; }
  int inputs() const { return slots().inputs; }
  std::int64_t vectors() const { return first_; }
  std::int64_t weight() const { return slots().weight; }
  std::int64_t bias() const { return slots().bias; }
  std::int64_t end() const { return query_.end(); }

  /// Vectors and biases 0, weights uniform with variance 1 / inputs: the part begins as 0.
  void initialise(std::span<float> parameters, base::Random& random) const;
  void mark_weights(std::span<float> decays) const;
  /// Tensors `prefix`.tokens and `prefix`.query.mean, .scale, .0.weight, .0.bias.
  void store(std::span<const float> parameters, std::span<const float> mean,
             std::span<const float> scale, const std::string& prefix,
             schemas::Tensors& tensors) const;

 private:
  const LayerSlots& slots() const { return query_.layers().front(); }

  std::int64_t vocabulary_, first_;
  NetworkShape query_;  // linear, all inputs each step's own
};

/// One step: x [inputs] standardised, ids [K].
template <class Real>
class TokenPass {
 public:
  explicit TokenPass(const TokenShape& shape)
      : shape_(&shape), query_(shape.rank()), upstream_(shape.rank()) {}

  /// delta[i] += e_ids[i] . u, in the runtime's order.
  void forward(const Real* parameters, const Real* x, std::span<const std::int32_t> ids,
               Real* delta);
  /// Adds the gradient, upstream [K] that of delta, to `gradient`; after forward() of the same
  /// step.
  void backward(const Real* parameters, const Real* x, std::span<const std::int32_t> ids,
                const Real* upstream, Real* gradient);

 private:
  const TokenShape* shape_;
  std::vector<Real> query_, upstream_;
};

extern template class TokenPass<float>;
extern template class TokenPass<double>;

}  // namespace dgap::trainer
