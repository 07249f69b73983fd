#include "trainer/window_pass.hpp"

#include <algorithm>
#include <vector>

#include "runtime/features.hpp"
#include "trainer/mlp.hpp"
#include "trainer/objective.hpp"
#include "trainer/transformer_pass.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

/// Candidates that go through a network together: enough that folding the lanes of a gradient costs
/// little, few enough that their activations stay in the second-level cache.
constexpr std::int64_t kColumns = 512;

/// A network with one output per candidate: one column per candidate, one segment per step.
template <class Real, class Pass>
class CandidatePass : public WindowPass<Real> {
 public:
  CandidatePass(const NetworkShape& shape, const Standardisation& standardisation,
                std::int64_t stride)
      : standardisation_(&standardisation),
        own_(shape.own()),
        stride_(stride),
        max_steps_(static_cast<int>(std::clamp<std::int64_t>(kColumns / stride, 1, kChunk))),
        pass_(shape, stride, max_steps_),
        sizes_(static_cast<std::size_t>(max_steps_)) {}

  int max_steps() const override { return max_steps_; }

  void feed(int slot, const float* phi, const float* candidates, int count) override {
    const float* const mean = standardisation_->mean.data();
    const float* const scale = standardisation_->scale.data();
    sizes_[slot] = count;
    Real* const shared = pass_.shared_inputs() + slot * kDetectorWidth;
    for (int f = 0; f < kDetectorWidth; ++f) shared[f] = (phi[f] - mean[f]) * scale[f];
    for (int f = 0; f < own_; ++f) {
      const float m = mean[kDetectorWidth + f], s = scale[kDetectorWidth + f];
      Real* const row = pass_.own_inputs() + f * pass_.stride() + slot * stride_;
      for (std::int64_t i = 0; i < count; ++i) row[i] = (candidates[i * own_ + f] - m) * s;
      std::fill(row + count, row + stride_, Real(0));
    }
  }

  const Real* forward(const Real* parameters, int steps) override {
    return pass_.forward(parameters, {sizes_.data(), static_cast<std::size_t>(steps)});
  }
  void backward(const Real* parameters, const Real* upstream, Real* gradient) override {
    pass_.backward(parameters, upstream, gradient);
  }

 private:
  const Standardisation* standardisation_;
  int own_;
  std::int64_t stride_;
  int max_steps_;
  Pass pass_;
  std::vector<std::int32_t> sizes_;
};

/// A network of the whole window: one column per step, one output per candidate. Candidates that a
/// short window lacks have standardised inputs of 0.
template <class Real>
class WholeWindowPass : public WindowPass<Real> {
 public:
  WholeWindowPass(const NetworkShape& shape, const Standardisation& standardisation, int window,
                  std::int64_t stride)
      : standardisation_(&standardisation),
        window_(window),
        own_((shape.own() - kDetectorWidth) / window),
        stride_(stride),
        pass_(shape, kChunk, 1),
        changes_(static_cast<std::size_t>(kChunk * stride)),
        upstream_(static_cast<std::size_t>(window * pass_.stride())) {}

  int max_steps() const override { return kChunk; }

  void feed(int slot, const float* phi, const float* candidates, int count) override {
    const float* const mean = standardisation_->mean.data();
    const float* const scale = standardisation_->scale.data();
    Real* const column = pass_.own_inputs() + slot;
    const std::int64_t step = pass_.stride();
    for (int f = 0; f < kDetectorWidth; ++f) column[f * step] = (phi[f] - mean[f]) * scale[f];
    for (std::int64_t i = 0; i < window_; ++i) {
      Real* const own = column + (kDetectorWidth + i * own_) * step;
      for (int f = 0; f < own_; ++f) {
        const float m = mean[kDetectorWidth + f], s = scale[kDetectorWidth + f];
        own[f * step] = i < count ? (candidates[i * own_ + f] - m) * s : 0.0f;
      }
    }
  }

  const Real* forward(const Real* parameters, int steps) override {
    steps_ = steps;
    const Real* const outputs = pass_.forward(parameters, 1);
    for (int slot = 0; slot < steps; ++slot) {
      for (int i = 0; i < window_; ++i) {
        changes_[slot * stride_ + i] = outputs[i * pass_.stride() + slot];
      }
    }
    return changes_.data();
  }

  void backward(const Real* parameters, const Real* upstream, Real* gradient) override {
    for (int i = 0; i < window_; ++i) {
      Real* const row = upstream_.data() + i * pass_.stride();
      for (int slot = 0; slot < kChunk; ++slot) {
        row[slot] = slot < steps_ ? upstream[slot * stride_ + i] : Real(0);
      }
    }
    pass_.backward(parameters, upstream_.data(), gradient);
  }

 private:
  const Standardisation* standardisation_;
  int window_, own_;
  std::int64_t stride_;
  int steps_ = 0;
  MlpPass<Real> pass_;
  std::vector<Real> changes_;   // [kChunk, stride]
  std::vector<Real> upstream_;  // [window, stride of the pass]
};

}  // namespace

template <class Real>
std::unique_ptr<WindowPass<Real>> make_window_pass(const CorrectorShape& shape,
                                                   const Standardisation& standardisation,
                                                   int window, std::int64_t stride) {
  if (shape.whole_window()) {
    return std::make_unique<WholeWindowPass<Real>>(shape.shape(), standardisation, window, stride);
  }
  if (shape.shape().is_transformer()) {
    return std::make_unique<CandidatePass<Real, TransformerPass<Real>>>(shape.shape(),
                                                                        standardisation, stride);
  }
  return std::make_unique<CandidatePass<Real, MlpPass<Real>>>(shape.shape(), standardisation,
                                                              stride);
}

template std::unique_ptr<WindowPass<float>> make_window_pass(const CorrectorShape&,
                                                             const Standardisation&, int,
                                                             std::int64_t);
template std::unique_ptr<WindowPass<double>> make_window_pass(const CorrectorShape&,
                                                              const Standardisation&, int,
                                                              std::int64_t);

}  // namespace dgap::trainer
