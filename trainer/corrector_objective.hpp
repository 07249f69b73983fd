#pragma once
#include <tbb/enumerable_thread_specific.h>

#include <memory>
#include <optional>
#include <vector>

#include "trainer/corrector_shape.hpp"
#include "trainer/mlp.hpp"
#include "trainer/objective.hpp"
#include "trainer/samples.hpp"
#include "trainer/standardisation.hpp"
#include "trainer/window_pass.hpp"

namespace dgap::trainer {

/// Which terms a corrector is trained on, and how strongly.
struct CorrectorLoss {
  double temperature = 1.0;
  double lambda_rank = 0.0;
  double lambda_reg = 0.0;
};

/// KL to the samples' target + lambda_rank x pairs + lambda_reg ||shape delta||^2 (arXiv:2607.16248
/// Eq. 15-18, method.md "Corrector"). The edit is the shape network's output per candidate, with
/// the tokens' part where there is one, plus, with a mass network, one common offset; only the
/// offset is not regularised.
template <class Real>
class CorrectorObjective : public Objective<Real> {
 public:
  /// Everything is referred to, not copied.
  CorrectorObjective(const Samples& samples, const Standardisation& standardisation,
                     const CorrectorShape& shape, CorrectorLoss loss);
  double chunk(std::span<const std::int32_t> steps, const Real* parameters,
               Real* gradient) const override;

 private:
  struct Workspace {
    std::unique_ptr<WindowPass<Real>> shape;
    std::optional<MlpPass<Real>> mass;
    std::vector<float> candidates;                       // [K, samples.own_inputs()]
    std::vector<Real> z, slope, ranked_z, ranked_slope;  // [stride of a window]
    std::vector<Real> upstream;                          // [steps, stride of a window]
    std::optional<TokenPass<Real>> tokens;
    std::vector<float> hidden;       // [samples.hidden_width()]
    std::vector<Real> query_inputs;  // of one step, standardised
    std::vector<Real> delta;         // [stride of a window], with the tokens' part
  };
  Workspace make_workspace() const;
  double step_loss(Workspace& w, std::int64_t step, const Real* delta, Real offset, Real* upstream,
                   Real* mass_upstream) const;
  /// Changes of a step's candidates with the tokens' part, which stays in w.
  const Real* add_tokens(Workspace& w, std::int64_t step, const Real* parameters,
                         const Real* delta) const;
  std::span<const std::int32_t> ids_of(std::int64_t step) const;
  double add_ranking(Workspace& w, std::int64_t step, bool with_gradient) const;

  const Samples* samples_;
  const Standardisation* standardisation_;
  const CorrectorShape* shape_;
  CorrectorLoss loss_;
  mutable tbb::enumerable_thread_specific<Workspace> workspaces_;
};

extern template class CorrectorObjective<float>;
extern template class CorrectorObjective<double>;

}  // namespace dgap::trainer
