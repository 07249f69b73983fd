#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/trace/trace.hpp"

/// What is computed from a trace about a window of K candidates, before and after it is edited.
/// Everything here is f64 and needs only compact columns (docs/metrics.md).
namespace dgap::statistics {

/// c_t(K) of every step: absolute reference mass of C_t(alpha) inside the quantised top K
/// (arXiv:2607.16248 Eq. 7). K <= M, else FailedError.
std::vector<double> coverage(const schemas::TracePart& trace, std::size_t precision, double alpha,
                             int k);

/// Of one step, by K = 1 .. min(k, finite candidates): the mass that the quantised decode gives its
/// own top K (running sums as in runtime::adaptive_window), and c_t(K). FailedError as coverage().
void coverage_by_size(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                      double alpha, int k, std::vector<double>& held, std::vector<double>& covered);

/// p_fp of the candidates of one step, in order, as far as C_t(alpha) goes (Eq. 3); `scratch` is
/// reused. FailedError when the trace keeps smaller sets (trace.alpha_max < alpha).
std::span<const double> candidate_probabilities(const schemas::TracePart& trace, std::int64_t step,
                                                double alpha, std::vector<double>& scratch);

/// One step of one precision over the window S = quantised top K, and U = C(alpha) ∪ S. Built from
/// columns; then the exact metrics of any edited window follow without the full logits. For one
/// thread; reused, it does not allocate once its buffers have grown.
class StepWindow {
 public:
  /// K = min(k, finite candidates), or fewer where the first hold `mass` of the quantised
  /// distribution (runtime::adaptive_window). References into `trace` are kept. Needs the best
  /// token outside the window too: FailedError unless K < M or the trace's top rows hold the whole
  /// vocabulary.
  void assign(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
              double alpha, int k, double mass = 1.0);

  int k() const { return static_cast<int>(ids_.size()); }
  std::span<const std::int32_t> ids() const { return ids_; }  // [K] quantised order
  std::span<const float> logits() const { return logits_; }   // [K] quantised
  std::span<const float> reference_logits() const { return reference_logits_; }  // [K]
  /// [K] p_fp over the full vocabulary.
  std::span<const double> reference_probability() const { return reference_probability_; }
  double reference_mass() const { return reference_mass_; }  // m_fp(S)
  double quantized_mass() const { return quantized_mass_; }  // m_q(S)
  bool has_tail() const { return tail_ > 0.0; }              // tokens outside S that are not masked
  double lse() const { return lse_; }
  double reference_lse() const { return reference_lse_; }
  float entropy() const { return entropy_; }
  /// The two of which the runtime makes features.
  double served_lse() const { return served_lse_; }
  float served_entropy() const { return served_entropy_; }
  double coverage() const { return coverage_; }  // c_t(K)
  double drift() const { return drift_; }        // d_loc before correction, Eq. 8
  /// y_t = [d_loc > epsilon and c_t >= rho_c], Eq. 9.
  bool risky(double epsilon, double rho_c) const { return drift_ > epsilon && coverage_ >= rho_c; }
  /// [d_loc > epsilon and c_t < rho_c]
  bool uncovered(double epsilon, double rho_c) const {
    return drift_ > epsilon && coverage_ < rho_c;
  }

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
  /// Adds one offset to `edited` [K], so that the window holds the reference's mass in the shape
  /// that the values have.
  void align_mass(std::span<float> edited) const;
  double reference_nll() const { return reference_nll_; }

 private:
  void assign_outside(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                      double alpha);
  double drift_of(const double* window_mass, double scale) const;
  double aligned_lse() const;
  bool top1_of(std::span<const float> edited) const;

  std::span<const std::int32_t> ids_;
  std::span<const float> logits_, reference_logits_;
  double lse_ = 0, reference_lse_ = 0, reference_nll_ = 0, kl_ = 0;
  double served_lse_ = 0;
  float entropy_ = 0, served_entropy_ = 0, target_logit_ = 0;
  std::int32_t target_slot_ = -1;  // in the window, or -1
  std::int32_t reference_top_ = 0;
  std::int32_t next_id_ = -1;  // the best token outside the window; -1: there is none
  float next_logit_ = 0;
  std::vector<double> reference_probability_, quantized_probability_;  // [K]
  double reference_mass_ = 0, quantized_mass_ = 0;
  double tail_ = 0;  // 1 - m_q(S); 0 when the window holds every finite token
  double coverage_ = 0, drift_ = 0;
  // C(alpha) outside S.
  std::vector<double> outside_reference_, outside_quantized_;
  double outside_reference_mass_ = 0, outside_quantized_mass_ = 0;
  std::vector<double> candidates_;
  mutable std::vector<double> edited_probability_;  // scratch of after() and align_mass()
};

}  // namespace dgap::statistics
