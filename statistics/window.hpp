#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/trace/trace.hpp"

/// What is computed from a trace about a window of K candidates, before and after it is edited.
/// Everything here is f64 and needs only compact columns.
namespace dgap::statistics {

/// c_t(K) of every step: absolute reference mass of C_t(alpha) inside the quantised top K
/// (arXiv:2607.16248 Eq. 7). K <= M.
std::vector<double> coverage(const schemas::TracePart& trace, std::size_t precision, double alpha,
                             int k);

/// One step of one precision over the window S = quantised top K, and U = C(alpha) ∪ S. Built from
/// columns; then the exact metrics of any edited window follow without the full logits.
class StepWindow {
 public:
  /// K = min(k, finite candidates). References into `trace` are kept.
  void assign(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
              double alpha, int k);

  int k() const;
  std::span<const std::int32_t> ids() const;              // [K] quantised order
  std::span<const float> logits() const;                  // [K] quantised
  std::span<const float> reference_logits() const;        // [K]
  std::span<const double> reference_probability() const;  // [K] full-vocabulary p_fp
  double reference_mass() const;                          // m_fp(S)
  double quantized_mass() const;                          // m_q(S)
  double lse() const;
  double reference_lse() const;
  float entropy() const;
  double coverage() const;  // c_t(K)
  double drift() const;     // d_loc before correction, Eq. 8
  /// y_t = [d_loc > epsilon and c_t >= rho_c], Eq. 9.
  bool risky(double epsilon, double rho_c) const;
  /// [d_loc > epsilon and c_t < rho_c]
  bool uncovered(double epsilon, double rho_c) const;

  /// Exact metrics after the window's logits were replaced by `edited` [K].
  struct Metrics {
    double kl = 0;      // KL(reference || edited), nats, full vocabulary
    double drift = 0;   // d_loc over the same U
    double nll = 0;     // of the target, nats
    bool top1 = false;  // argmax (lowest id on ties) equals the reference's
  };
  Metrics before() const;
  Metrics after(std::span<const float> edited) const;

  /// The reference's shape and the reference's window mass: the ceiling of any window corrector
  /// (method.md, `oracle-*`).
  void oracle(std::span<float> edited) const;
  double reference_nll() const;
};

}  // namespace dgap::statistics
