#include "trainer/detector_objective.hpp"

#include <algorithm>

#include "runtime/features.hpp"
#include "trainer/losses.hpp"

namespace dgap::trainer {

using runtime::kDetectorWidth;

template <class Real>
void feed_features(const Samples& samples, const Standardisation& standardisation,
                   std::span<const std::int32_t> steps, MlpPass<Real>& pass) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const float* const x = samples.features.data() + std::int64_t{steps[i]} * kDetectorWidth;
    Real* const row = pass.own_inputs() + static_cast<std::int64_t>(i) * pass.own_stride();
    for (int f = 0; f < kDetectorWidth; ++f) {
      row[f] = (x[f] - standardisation.mean[f]) * standardisation.scale[f];
    }
  }
}

template <class Real>
DetectorObjective<Real>::DetectorObjective(const Samples& samples,
                                           std::span<const std::uint8_t> labels,
                                           const Standardisation& standardisation,
                                           const NetworkShape& network, double positive_weight)
    : samples_(&samples),
      labels_(labels),
      standardisation_(&standardisation),
      positive_weight_(positive_weight),
      passes_([&network] { return MlpPass<Real>(network, kChunk); }) {}

template <class Real>
double DetectorObjective<Real>::chunk(std::span<const std::int32_t> steps, const Real* parameters,
                                      Real* gradient) const {
  MlpPass<Real>& pass = passes_.local();
  feed_features(*samples_, *standardisation_, steps, pass);
  pass.begin(parameters);
  const Real* const logits = pass.forward(std::ssize(steps));
  std::uint8_t labels[kChunk];
  for (std::size_t i = 0; i < steps.size(); ++i) labels[i] = labels_[steps[i]];
  Real upstream[kChunk];
  const double loss = binary_cross_entropy(logits, labels, positive_weight_,
                                           static_cast<std::int64_t>(steps.size()), upstream);
  if (gradient == nullptr) return loss;
  pass.backward(upstream);
  pass.add_gradient(gradient);
  return loss;
}

template void feed_features(const Samples&, const Standardisation&, std::span<const std::int32_t>,
                            MlpPass<float>&);
template void feed_features(const Samples&, const Standardisation&, std::span<const std::int32_t>,
                            MlpPass<double>&);
template class DetectorObjective<float>;
template class DetectorObjective<double>;

}  // namespace dgap::trainer
