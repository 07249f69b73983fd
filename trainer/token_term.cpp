#include "trainer/token_term.hpp"

#include <algorithm>
#include <cmath>

#include "base/fused.hpp"
#include "base/multiversion.hpp"
#include "runtime/token_term.hpp"
#include "trainer/dense.hpp"

namespace dgap::trainer {
namespace {

/// Gradients of the vectors of `ids`, and of the query, which is set to the sum over them.
template <class Real>
DGAP_INLINE void gather_products(std::span<const std::int32_t> ids, int rank, const Real* vectors,
                                 const Real* query, const Real* upstream, Real* vector_gradient,
                                 Real* query_gradient) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t at = std::int64_t{ids[i]} * rank;
    for (int r = 0; r < rank; ++r) {
      Real& gradient = vector_gradient[at + r];
      gradient = base::multiply_add(upstream[i], query[r], gradient);
      query_gradient[r] = base::multiply_add(upstream[i], vectors[at + r], query_gradient[r]);
    }
  }
}
DGAP_MULTIVERSION void add_products(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                                    int rank, const float* vectors, const float* query,
                                    float* delta) {
  runtime::add_token_products(ids, vocabulary, rank, vectors, query, delta);
}
void add_products(std::span<const std::int32_t> ids, std::int64_t vocabulary, int rank,
                  const double* vectors, const double* query, double* delta) {
  runtime::add_token_products(ids, vocabulary, rank, vectors, query, delta);
}

DGAP_MULTIVERSION void gather(std::span<const std::int32_t> ids, int rank, const float* vectors,
                              const float* query, const float* upstream, float* vector_gradient,
                              float* query_gradient) {
  gather_products(ids, rank, vectors, query, upstream, vector_gradient, query_gradient);
}
void gather(std::span<const std::int32_t> ids, int rank, const double* vectors, const double* query,
            const double* upstream, double* vector_gradient, double* query_gradient) {
  gather_products(ids, rank, vectors, query, upstream, vector_gradient, query_gradient);
}

}  // namespace

void TokenShape::initialise(std::span<float> parameters, base::Random& random) const {
  std::fill(parameters.begin() + first_, parameters.begin() + end(), 0.0f);
  const double bound = std::sqrt(3.0 / inputs());
  for (std::int64_t i = weight(); i < bias(); ++i) {
    parameters[i] = static_cast<float>(bound * (2.0 * random.uniform() - 1.0));
  }
}

void TokenShape::mark_weights(std::span<float> decays) const {
  std::fill(decays.begin() + first_, decays.begin() + weight(), 1.0f);
  query_.mark_weights(decays);
}

void TokenShape::store(std::span<const float> parameters, std::span<const float> mean,
                       std::span<const float> scale, const std::string& prefix,
                       schemas::Tensors& tensors) const {
  tensors[prefix + ".tokens"] = {{vocabulary_, rank()},
                                 {parameters.begin() + first_, parameters.begin() + weight()}};
  query_.store(parameters, mean, scale, prefix + ".query", tensors);
}

template <class Real>
void TokenPass<Real>::forward(const Real* parameters, const Real* x,
                              std::span<const std::int32_t> ids, Real* delta) {
  const int rank = shape_->rank(), inputs = shape_->inputs();
  sum_shared({inputs, 1, rank, inputs}, parameters + shape_->weight(), parameters + shape_->bias(),
             x, query_.data());
  add_products(ids, shape_->vocabulary(), rank, parameters + shape_->vectors(), query_.data(),
               delta);
}

template <class Real>
void TokenPass<Real>::backward(const Real* parameters, const Real* x,
                               std::span<const std::int32_t> ids, const Real* upstream,
                               Real* gradient) {
  const int rank = shape_->rank();
  std::fill(upstream_.begin(), upstream_.end(), Real(0));
  gather(ids, rank, parameters + shape_->vectors(), query_.data(), upstream,
         gradient + shape_->vectors(), upstream_.data());
  add_outer(rank, shape_->inputs(), upstream_.data(), x, gradient + shape_->weight(),
            shape_->inputs());
  accumulate(upstream_.data(), gradient + shape_->bias(), rank);
}

template class TokenPass<float>;
template class TokenPass<double>;

}  // namespace dgap::trainer
