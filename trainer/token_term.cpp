#include "trainer/token_term.hpp"

#include <algorithm>
#include <cmath>

namespace dgap::trainer {

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
  const Real* const weight = parameters + shape_->weight();
  for (int r = 0; r < rank; ++r) {
    Real sum = parameters[shape_->bias() + r];
    for (int i = 0; i < inputs; ++i) sum += x[i] * weight[r * inputs + i];
    query_[r] = sum;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Real* const vector = parameters + shape_->vectors() + std::int64_t{ids[i]} * rank;
    Real sum = 0;
    for (int r = 0; r < rank; ++r) sum += vector[r] * query_[r];
    delta[i] += sum;
  }
}

template <class Real>
void TokenPass<Real>::backward(const Real* parameters, const Real* x,
                               std::span<const std::int32_t> ids, const Real* upstream,
                               Real* gradient) {
  const int rank = shape_->rank(), inputs = shape_->inputs();
  std::fill(upstream_.begin(), upstream_.end(), Real(0));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t at = shape_->vectors() + std::int64_t{ids[i]} * rank;
    for (int r = 0; r < rank; ++r) {
      gradient[at + r] += upstream[i] * query_[r];
      upstream_[r] += upstream[i] * parameters[at + r];
    }
  }
  for (int r = 0; r < rank; ++r) {
    Real* const weight = gradient + shape_->weight() + std::int64_t{r} * inputs;
    for (int i = 0; i < inputs; ++i) weight[i] += upstream_[r] * x[i];
    gradient[shape_->bias() + r] += upstream_[r];
  }
}

template class TokenPass<float>;
template class TokenPass<double>;

}  // namespace dgap::trainer
