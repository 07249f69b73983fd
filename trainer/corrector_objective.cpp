#include "trainer/corrector_objective.hpp"

#include <algorithm>

#include "runtime/features.hpp"
#include "trainer/detector_objective.hpp"
#include "trainer/losses.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

}  // namespace

template <class Real>
CorrectorObjective<Real>::CorrectorObjective(const Samples& samples,
                                             const Standardisation& standardisation,
                                             const CorrectorShape& shape, CorrectorLoss loss)
    : samples_(&samples),
      standardisation_(&standardisation),
      shape_(&shape),
      loss_(loss),
      workspaces_([this] { return make_workspace(); }) {}

template <class Real>
typename CorrectorObjective<Real>::Workspace CorrectorObjective<Real>::make_workspace() const {
  const std::int64_t stride = samples_->stride;
  Workspace w;
  w.shape = make_window_pass<Real>(*shape_, *standardisation_, samples_->window, stride);
  if (shape_->mass() != nullptr) w.mass.emplace(*shape_->mass(), kChunk);
  w.candidates.resize(static_cast<std::size_t>(stride * w.shape->candidate_stride()));
  for (auto* window : {&w.z, &w.slope, &w.ranked_z, &w.ranked_slope}) window->resize(stride);
  w.upstream.resize(static_cast<std::size_t>(w.shape->max_steps() * stride));
  if (shape_->tokens() != nullptr) {
    w.tokens.emplace(*shape_->tokens());
    w.hidden.resize(static_cast<std::size_t>(samples_->hidden_width()));
    w.query_inputs.resize(static_cast<std::size_t>(shape_->tokens()->inputs()));
    w.delta.resize(stride);
  }
  return w;
}

template <class Real>
std::span<const std::int32_t> CorrectorObjective<Real>::ids_of(std::int64_t step) const {
  return {samples_->ids.data() + step * samples_->stride,
          static_cast<std::size_t>(samples_->size[step])};
}

template <class Real>
const Real* CorrectorObjective<Real>::add_tokens(Workspace& w, std::int64_t step,
                                                 const Real* parameters, const Real* delta) const {
  Real* input = w.query_inputs.data();
  const auto add = [&](const float* x, int count, int first) {
    const float* const mean = standardisation_->mean.data() + first;
    const float* const scale = standardisation_->scale.data() + first;
    for (int i = 0; i < count; ++i) *input++ = (x[i] - mean[i]) * scale[i];
  };
  if (shape_->query_of_phi()) {
    add(samples_->features.data() + step * kDetectorWidth, kDetectorWidth, 0);
  }
  if (samples_->takes_hidden) {
    samples_->hidden_state(step, w.hidden.data());
    add(w.hidden.data(), samples_->hidden_width(), kDetectorWidth + samples_->own_inputs());
  }
  std::copy_n(delta, samples_->stride, w.delta.data());
  w.tokens->forward(parameters, w.query_inputs.data(), ids_of(step), w.delta.data());
  return w.delta.data();
}

/// lambda_rank times the pairs of w.z; its gradient is added to w.slope.
template <class Real>
double CorrectorObjective<Real>::add_ranking(Workspace& w, std::int64_t step,
                                             bool with_gradient) const {
  const std::int32_t* const ranked = samples_->ranked.data() + step * samples_->stride;
  const int k = samples_->size[step];
  for (std::int64_t i = 0; i < samples_->stride; ++i) w.ranked_z[i] = w.z[ranked[i]];
  const double sum =
      ranking_loss(w.ranked_z.data(), samples_->ranked_probability.data() + step * samples_->stride,
                   k, w.ranked_slope.data());
  const auto lambda = static_cast<Real>(loss_.lambda_rank);
  if (with_gradient) {
    for (int i = 0; i < k; ++i) w.slope[ranked[i]] += lambda * w.ranked_slope[i];
  }
  return loss_.lambda_rank * sum;
}

/// Weighted loss of one step whose window is edited by delta + offset. upstream [stride] = its
/// gradient with respect to delta, zeros behind the candidates; unless null.
template <class Real>
double CorrectorObjective<Real>::step_loss(Workspace& w, std::int64_t step, const Real* delta,
                                           Real offset, Real* upstream, Real* mass_upstream) const {
  const int k = samples_->size[step];
  const float* const logits = samples_->logits.data() + step * samples_->stride;
  for (std::int64_t i = 0; i < samples_->stride; ++i) w.z[i] = logits[i] + (delta[i] + offset);
  double loss = window_kl(w.z.data(), samples_->target_of(step), loss_.temperature,
                          upstream != nullptr ? w.slope.data() : nullptr);
  if (upstream != nullptr) {
    double sum = 0.0;  // pairs see differences only, so they do not move the offset
    for (int i = 0; i < k; ++i) sum += w.slope[i];
    *mass_upstream = static_cast<Real>(sum) * samples_->weight[step];
  }
  if (loss_.lambda_rank > 0.0) loss += add_ranking(w, step, upstream != nullptr);
  double squares = 0.0;
  for (int i = 0; i < k; ++i) squares += static_cast<double>(delta[i]) * delta[i];
  loss += loss_.lambda_reg * squares;
  if (upstream != nullptr) {
    const Real weight = samples_->weight[step];
    const auto pull = static_cast<Real>(2.0 * loss_.lambda_reg);
    for (int i = 0; i < k; ++i) upstream[i] = (w.slope[i] + pull * delta[i]) * weight;
    std::fill(upstream + k, upstream + samples_->stride, Real(0));
  }
  return loss * static_cast<double>(samples_->weight[step]);
}

template <class Real>
double CorrectorObjective<Real>::chunk(std::span<const std::int32_t> steps, const Real* parameters,
                                       Real* gradient) const {
  Workspace& w = workspaces_.local();
  const Real* offsets = nullptr;
  if (w.mass) {
    feed_features(*samples_, *standardisation_, steps, *w.mass);
    w.mass->begin(parameters);
    offsets = w.mass->forward(std::ssize(steps));
  }
  Real mass_upstream[kChunk] = {};
  double loss = 0.0;
  w.shape->begin(parameters, gradient);
  const auto most = static_cast<std::size_t>(w.shape->max_steps());
  for (std::size_t begin = 0; begin < steps.size(); begin += most) {
    const auto group = steps.subspan(begin, std::min(most, steps.size() - begin));
    const int count = static_cast<int>(group.size());
    for (int s = 0; s < count; ++s) {
      samples_->candidate_inputs(group[s], w.candidates.data(), w.shape->candidate_stride());
      w.shape->feed(s, samples_->features.data() + std::int64_t{group[s]} * kDetectorWidth,
                    w.candidates.data(), samples_->size[group[s]]);
    }
    const Real* const delta = w.shape->forward(count);
    for (int s = 0; s < count; ++s) {
      const std::int64_t first = s * samples_->stride;
      Real* const upstream = gradient != nullptr ? w.upstream.data() + first : nullptr;
      const Real* changes = delta + first;
      if (w.tokens) changes = add_tokens(w, group[s], parameters, changes);
      loss += step_loss(w, group[s], changes, offsets != nullptr ? offsets[begin + s] : Real(0),
                        upstream, mass_upstream + begin + s);
      if (w.tokens && gradient != nullptr) {
        w.tokens->backward(parameters, w.query_inputs.data(), ids_of(group[s]), upstream, gradient);
      }
    }
    if (gradient != nullptr) w.shape->backward(w.upstream.data());
  }
  w.shape->end();
  if (gradient != nullptr && w.mass) {
    w.mass->backward(mass_upstream);
    w.mass->add_gradient(gradient);
  }
  return loss;
}

template class CorrectorObjective<float>;
template class CorrectorObjective<double>;

}  // namespace dgap::trainer
