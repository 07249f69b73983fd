#pragma once
#include <optional>
#include <span>
#include <vector>

#include "runtime/context_features.hpp"
#include "runtime/features.hpp"
#include "runtime/network.hpp"
#include "runtime/token_term.hpp"
#include "runtime/transformer.hpp"
#include "schemas/bundle/bundle.hpp"

/// Detector and corrector of one precision, as served: built from a bundle's entry, called by the
/// restorer, and by trainer (validation), calibrator (threshold) and evaluator.
namespace dgap::runtime {

class Detector {
 public:
  /// architecture linear | mlp: network `info.tensors`, kDetectorWidth -> 1; constant:
  /// info.constant_risk.
  Detector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors);
  std::size_t scratch_floats() const;
  /// sigmoid(f(phi)), arXiv:2607.16248 Eq. 6.
  float risk(const float* phi, float* scratch) const;
  /// The second output: how likely the step is distorted and not covered; 0 where there is none.
  float escalation(const float* phi, float* scratch) const;

 private:
  Network network_, escalation_;
  bool escalates_ = false;
  bool constant_ = false;
  float constant_risk_ = 0.0f;
};

/// What a corrector may see of a decode step.
struct CorrectorStep {
  const float* phi = nullptr;     // [kDetectorWidth]
  std::span<const float> window;  // [K] logits, descending
  double lse = 0.0;
  std::span<const std::int32_t> ids;  // [K] tokens
  const Context* context = nullptr;   // where takes_context(): the text up to this step
  const float* hidden = nullptr;      // where takes_hidden(): the final hidden state
};

/// Delta z over the window (Eq. 12): shape network <tensors>.shape, inputs (phi, xi_i, context
/// features of i where the bundle says so) -> 1 per candidate, or a transformer over them, or one
/// network of the whole window, (phi, inputs of all candidates) -> all changes; plus, where the
/// bundle has it, the mass network <tensors>.mass, phi -> 1, a common offset of the window; plus,
/// where it takes `tokens` or `hidden`, e_v . u of every candidate's token v
/// (runtime/token_term.hpp), the query being of phi, of the final hidden state, or of both.
class Corrector {
 public:
  Corrector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors);

  bool takes_context() const { return takes_context_; }
  bool takes_hidden() const { return hidden_size_ > 0; }
  int hidden_size() const { return hidden_size_; }  // 0 where it takes none

  /// Memory of one thread, for windows of at most a given size.
  struct Scratch {
    std::vector<float> floats;
    std::optional<ContextFeatures> context;
  };
  Scratch scratch(int window) const;

  /// delta [K]. No allocation.
  void deltas(const CorrectorStep& step, float* delta, Scratch& scratch) const;

 private:
  int own_inputs() const { return kCandidateWidth + (takes_context_ ? kContextWidth : 0); }

  Network shape_, mass_;
  std::optional<Transformer> transformer_;  // in place of shape_
  int whole_window_ = 0;                    // candidates of a network of the whole window
  std::optional<TokenTerm> tokens_;
  bool query_of_phi_ = false;
  int hidden_size_ = 0;
  bool has_mass_ = false;
  bool takes_context_ = false;
  bool identity_ = false;  // architecture "none": delta 0
};

}  // namespace dgap::runtime
