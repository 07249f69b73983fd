#pragma once
#include <span>
#include <vector>

#include "runtime/features.hpp"
#include "runtime/network.hpp"
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

 private:
  Network network_;
  bool constant_ = false;
  float constant_risk_ = 0.0f;
};

/// Delta z over the window (Eq. 12): shape network <tensors>.shape, inputs (phi, xi_i) -> 1 per
/// candidate; plus, where the bundle has it, the mass network <tensors>.mass, phi -> 1, a common
/// offset of the window.
class Corrector {
 public:
  Corrector(const schemas::NetworkInfo& info, const schemas::Tensors& tensors);
  std::size_t scratch_floats(int window) const;
  /// delta [window.size()]
  void deltas(const float* phi, std::span<const float> window, double lse, float* delta,
              float* scratch) const;

 private:
  Network shape_, mass_;
  bool has_mass_ = false;
  bool identity_ = false;  // architecture "none": delta 0
};

}  // namespace dgap::runtime
