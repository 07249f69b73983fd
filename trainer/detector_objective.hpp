#pragma once
#include <tbb/enumerable_thread_specific.h>

#include "trainer/mlp.hpp"
#include "trainer/objective.hpp"
#include "trainer/samples.hpp"
#include "trainer/standardisation.hpp"

namespace dgap::trainer {

/// Weighted binary cross-entropy (arXiv:2607.16248 Eq. 10) of y, or of other labels of the samples.
/// The samples, labels and the standardisation are referred to, not copied.
template <class Real>
class DetectorObjective : public Objective<Real> {
 public:
  DetectorObjective(const Samples& samples, const Standardisation& standardisation,
                    const NetworkShape& network, double positive_weight)
      : DetectorObjective(samples, samples.label, standardisation, network, positive_weight) {}
  DetectorObjective(const Samples& samples, std::span<const std::uint8_t> labels,
                    const Standardisation& standardisation, const NetworkShape& network,
                    double positive_weight);
  double chunk(std::span<const std::int32_t> steps, const Real* parameters,
               Real* gradient) const override;

 private:
  const Samples* samples_;
  std::span<const std::uint8_t> labels_;
  const Standardisation* standardisation_;
  double positive_weight_;
  mutable tbb::enumerable_thread_specific<MlpPass<Real>> passes_;
};

extern template class DetectorObjective<float>;
extern template class DetectorObjective<double>;

/// Writes the standardised features of `steps` into the columns of `pass`, one step a column, zeros
/// behind them: how networks of features alone (detector, mass) are fed.
template <class Real>
void feed_features(const Samples& samples, const Standardisation& standardisation,
                   std::span<const std::int32_t> steps, MlpPass<Real>& pass);

}  // namespace dgap::trainer
