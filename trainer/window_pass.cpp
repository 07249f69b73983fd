#include "trainer/window_pass.hpp"

#include <algorithm>
#include <vector>

#include "base/multiversion.hpp"
#include "runtime/features.hpp"
#include "trainer/mlp.hpp"
#include "trainer/objective.hpp"
#include "trainer/transformer_pass.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

/// Candidates that go through a transformer together: enough that folding the lanes of a gradient
/// costs little, few enough that their activations stay in the second-level cache.
constexpr std::int64_t kColumns = 512;

template <class Real>
DGAP_INLINE void standardise_rows(const float* x, const float* mean, const float* scale,
                                  std::int64_t width, Real* to, int count) {
  for (int i = 0; i < count; ++i, x += width, to += width) {
    for (std::int64_t f = 0; f < width; ++f) to[f] = (x[f] - mean[f]) * scale[f];
  }
}
DGAP_MULTIVERSION void standardise(const float* x, const float* mean, const float* scale,
                                   std::int64_t width, float* to, int count) {
  standardise_rows(x, mean, scale, width, to, count);
}
void standardise(const float* x, const float* mean, const float* scale, std::int64_t width,
                 double* to, int count) {
  standardise_rows(x, mean, scale, width, to, count);
}

/// A feed-forward network with one output per candidate: one row per candidate, step by step, whose
/// activations stay in the first-level cache.
template <class Real>
class CandidatePass : public WindowPass<Real> {
 public:
  CandidatePass(const NetworkShape& shape, const Standardisation& standardisation,
                std::int64_t stride)
      : standardisation_(&standardisation),
        pass_(shape, stride),
        mean_(pass_.own_stride()),
        scale_(pass_.own_stride()) {
    const auto copy = [&](const std::vector<float>& from, std::vector<float>& to) {
      std::copy_n(from.begin() + kDetectorWidth, shape.own(), to.begin());
    };
    copy(standardisation.mean, mean_), copy(standardisation.scale, scale_);
  }

  int max_steps() const override { return 1; }
  std::int64_t candidate_stride() const override { return pass_.own_stride(); }

  void begin(const Real* parameters, Real* gradient) override {
    gradient_ = gradient;
    pass_.begin(parameters);
  }
  void feed(int, const float* phi, const float* candidates, int count) override {
    count_ = count;
    standardise(phi, standardisation_->mean.data(), standardisation_->scale.data(), kDetectorWidth,
                pass_.shared_inputs(), 1);
    standardise(candidates, mean_.data(), scale_.data(), pass_.own_stride(), pass_.own_inputs(),
                count);
  }
  const Real* forward(int) override { return pass_.forward(count_); }
  void backward(const Real* upstream) override { pass_.backward(upstream); }
  void end() override {
    if (gradient_ != nullptr) pass_.add_gradient(gradient_);
  }

 private:
  const Standardisation* standardisation_;
  MlpPass<Real> pass_;
  std::vector<float> mean_, scale_;  // of a candidate's own inputs, padded with zeros
  Real* gradient_ = nullptr;
  int count_ = 0;
};

/// Candidates that see each other: one column per candidate, one segment per step.
template <class Real>
class AttentionPass : public WindowPass<Real> {
 public:
  AttentionPass(const NetworkShape& shape, const Standardisation& standardisation,
                std::int64_t stride)
      : standardisation_(&standardisation),
        own_(shape.own()),
        stride_(stride),
        max_steps_(static_cast<int>(std::clamp<std::int64_t>(kColumns / stride, 1, kChunk))),
        pass_(shape, stride, max_steps_),
        sizes_(static_cast<std::size_t>(max_steps_)) {}

  int max_steps() const override { return max_steps_; }
  std::int64_t candidate_stride() const override { return own_; }

  void begin(const Real* parameters, Real* gradient) override {
    parameters_ = parameters;
    gradient_ = gradient;
  }
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
  const Real* forward(int steps) override {
    return pass_.forward(parameters_, {sizes_.data(), static_cast<std::size_t>(steps)});
  }
  void backward(const Real* upstream) override { pass_.backward(parameters_, upstream, gradient_); }
  void end() override {}

 private:
  const Standardisation* standardisation_;
  int own_;
  std::int64_t stride_;
  int max_steps_;
  TransformerPass<Real> pass_;
  std::vector<std::int32_t> sizes_;
  const Real* parameters_ = nullptr;
  Real* gradient_ = nullptr;
};

/// A network of the whole window: one row per step, one output per candidate. Candidates that a
/// short window lacks have standardised inputs of 0.
template <class Real>
class WholeWindowPass : public WindowPass<Real> {
 public:
  WholeWindowPass(const NetworkShape& shape, const Standardisation& standardisation, int window)
      : standardisation_(&standardisation),
        own_((shape.own() - kDetectorWidth) / window),
        inputs_(shape.own()),
        pass_(shape, kChunk, true) {}

  int max_steps() const override { return kChunk; }
  std::int64_t candidate_stride() const override { return own_; }

  void begin(const Real* parameters, Real* gradient) override {
    gradient_ = gradient;
    pass_.begin(parameters);
  }
  void feed(int slot, const float* phi, const float* candidates, int count) override {
    const float* const mean = standardisation_->mean.data();
    const float* const scale = standardisation_->scale.data();
    Real* row = pass_.own_inputs() + slot * pass_.own_stride();
    Real* const end = row + inputs_;
    standardise(phi, mean, scale, kDetectorWidth, row, 1);
    row += kDetectorWidth;
    for (int i = 0; i < count; ++i, row += own_) {
      standardise(candidates + i * own_, mean + kDetectorWidth, scale + kDetectorWidth, own_, row,
                  1);
    }
    std::fill(row, end, Real(0));
  }
  const Real* forward(int steps) override { return pass_.forward(steps); }
  void backward(const Real* upstream) override { pass_.backward(upstream); }
  void end() override {
    if (gradient_ != nullptr) pass_.add_gradient(gradient_);
  }

 private:
  const Standardisation* standardisation_;
  int own_, inputs_;
  MlpPass<Real> pass_;
  Real* gradient_ = nullptr;
};

}  // namespace

template <class Real>
std::unique_ptr<WindowPass<Real>> make_window_pass(const CorrectorShape& shape,
                                                   const Standardisation& standardisation,
                                                   int window, std::int64_t stride) {
  if (shape.whole_window()) {
    return std::make_unique<WholeWindowPass<Real>>(shape.shape(), standardisation, window);
  }
  if (shape.shape().is_transformer()) {
    return std::make_unique<AttentionPass<Real>>(shape.shape(), standardisation, stride);
  }
  return std::make_unique<CandidatePass<Real>>(shape.shape(), standardisation, stride);
}

template std::unique_ptr<WindowPass<float>> make_window_pass(const CorrectorShape&,
                                                             const Standardisation&, int,
                                                             std::int64_t);
template std::unique_ptr<WindowPass<double>> make_window_pass(const CorrectorShape&,
                                                              const Standardisation&, int,
                                                              std::int64_t);

}  // namespace dgap::trainer
