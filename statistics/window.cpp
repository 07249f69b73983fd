#include "statistics/window.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/exp.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/adaptive_window.hpp"
#include "statistics/sums.hpp"

namespace dgap::statistics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Least mass that the oracle assumes outside a window: below it 1 - m has no digits left.
constexpr double kTailFloor = 0x1p-40;

/// Candidates of the quantised top K of one step: -inf never enters.
std::int64_t window_size(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                         std::int64_t k) {
  if (k < 1 || k > trace.top) {
    throw base::FailedError("a window of " + std::to_string(k) + " candidates needs trace.top >= " +
                            std::to_string(std::max<std::int64_t>(k, 1)) +
                            ", but the traces hold " + std::to_string(trace.top) +
                            "; collect again with a larger trace.top");
  }
  const float* const logits = trace.columns[precision].top_logits.data() + step * trace.top;
  while (k > 0 && logits[k - 1] == -kInfinity) --k;
  return k;
}

double served_lse_of(const schemas::PrecisionColumns& columns, std::int64_t step) {
  return columns.served_lse.empty() ? columns.lse[step] : columns.served_lse[step];
}

/// Mass of the window's tokens that belong to C(alpha), Eq. 7.
double covered_mass(const double* probability, const double* mass_before, double alpha,
                    std::int64_t k) {
  double mass = 0.0;
  for (std::int64_t i = 0; i < k; ++i) mass += mass_before[i] < alpha ? probability[i] : 0.0;
  return mass;
}

}  // namespace

std::vector<double> coverage(const schemas::TracePart& trace, std::size_t precision, double alpha,
                             int k) {
  const schemas::PrecisionColumns& columns = trace.columns[precision];
  std::vector<double> result(trace.steps()), probability(k > 0 ? k : 0);
  for (std::int64_t step = 0; step < trace.steps(); ++step) {
    const std::int64_t size = window_size(trace, precision, step, k), row = step * trace.top;
    exponentiate(columns.top_reference_logits.data() + row, size, trace.reference.lse[step],
                 probability.data());
    result[step] = covered_mass(probability.data(), columns.top_reference_mass_before.data() + row,
                                alpha, size);
  }
  return result;
}

void coverage_by_size(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                      double alpha, int k, std::vector<double>& held,
                      std::vector<double>& covered) {
  const schemas::PrecisionColumns& columns = trace.columns[precision];
  const std::int64_t size = window_size(trace, precision, step, k), row = step * trace.top;
  held.resize(size);
  covered.resize(size);
  exponentiate(columns.top_logits.data() + row, size, served_lse_of(columns, step), held.data());
  exponentiate(columns.top_reference_logits.data() + row, size, trace.reference.lse[step],
               covered.data());
  double mass = 0.0, inside = 0.0;
  for (std::int64_t i = 0; i < size; ++i) {
    mass += held[i];
    inside += columns.top_reference_mass_before[row + i] < alpha ? covered[i] : 0.0;
    held[i] = mass, covered[i] = inside;
  }
}

std::span<const double> candidate_probabilities(const schemas::TracePart& trace, std::int64_t step,
                                                double alpha, std::vector<double>& scratch) {
  const schemas::ReferenceColumns& reference = trace.reference;
  const std::int64_t first = reference.candidate_first[step];
  const std::int64_t stored = reference.candidate_first[step + 1] - first;
  scratch.resize(std::max<std::size_t>(scratch.size(), stored));
  exponentiate(reference.candidate_logits.data() + first, stored, reference.lse[step],
               scratch.data());
  double mass = 0.0;
  std::int64_t count = 0;
  for (; count < stored && mass < alpha; ++count) mass += scratch[count];
  if (mass < alpha && mass < 1.0 - 1e-9) {
    throw base::FailedError("step " + std::to_string(step) +
                            ": the traces hold candidates up to a mass of " + base::number(mass) +
                            " only, which is less than window.alpha = " + base::number(alpha) +
                            "; collect again with trace.alpha_max >= window.alpha");
  }
  return {scratch.data(), static_cast<std::size_t>(count)};
}

void StepWindow::assign(const schemas::TracePart& trace, std::size_t precision, std::int64_t step,
                        double alpha, int k, double mass) {
  const schemas::PrecisionColumns& columns = trace.columns[precision];
  const std::int64_t most = window_size(trace, precision, step, k), row = step * trace.top;
  const std::int64_t size =
      runtime::adaptive_window({columns.top_logits.data() + row, static_cast<std::size_t>(most)},
                               served_lse_of(columns, step), mass);
  if (size == trace.top && size < trace.header.vocab_size) {
    throw base::FailedError("a window of " + std::to_string(size) +
                            " candidates needs trace.top > " + std::to_string(size) +
                            "; collect again with a larger trace.top");
  }
  ids_ = {columns.top_ids.data() + row, static_cast<std::size_t>(size)};
  logits_ = {columns.top_logits.data() + row, ids_.size()};
  reference_logits_ = {columns.top_reference_logits.data() + row, ids_.size()};
  lse_ = columns.lse[step];
  served_lse_ = served_lse_of(columns, step);
  reference_lse_ = trace.reference.lse[step];
  reference_nll_ = reference_lse_ - trace.reference.target_logit[step];
  kl_ = columns.kl[step];
  entropy_ = columns.entropy[step];
  served_entropy_ = columns.served_entropy.empty() ? entropy_ : columns.served_entropy[step];
  target_logit_ = columns.target_logit[step];
  const auto slot = std::find(ids_.begin(), ids_.end(), trace.step_target[step]);
  target_slot_ = slot == ids_.end() ? -1 : static_cast<std::int32_t>(slot - ids_.begin());
  reference_top_ = trace.reference.top_ids[row];
  const bool outside = size < trace.top && columns.top_logits[row + size] > -kInfinity;
  next_id_ = outside ? columns.top_ids[row + size] : -1;
  next_logit_ = outside ? columns.top_logits[row + size] : -kInfinity;

  reference_probability_.resize(size);
  quantized_probability_.resize(size);
  exponentiate(reference_logits_.data(), size, reference_lse_, reference_probability_.data());
  exponentiate(logits_.data(), size, lse_, quantized_probability_.data());
  reference_mass_ = sum(reference_probability_.data(), size);
  quantized_mass_ = sum(quantized_probability_.data(), size);
  tail_ = outside ? std::max(1.0 - quantized_mass_, base::exp_f64(next_logit_ - lse_)) : 0.0;
  coverage_ = covered_mass(reference_probability_.data(),
                           columns.top_reference_mass_before.data() + row, alpha, size);
  assign_outside(trace, precision, step, alpha);
  drift_ = drift_of(quantized_probability_.data(), 1.0);
}

void StepWindow::assign_outside(const schemas::TracePart& trace, std::size_t precision,
                                std::int64_t step, double alpha) {
  const std::span<const double> candidates =
      candidate_probabilities(trace, step, alpha, candidates_);
  const std::int64_t first = trace.reference.candidate_first[step];
  const std::int32_t* const ranks = trace.columns[precision].candidate_ranks.data() + first;
  const float* const logits = trace.columns[precision].candidate_logits.data() + first;
  outside_reference_.clear();
  outside_quantized_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (ranks[i] < k()) continue;
    outside_reference_.push_back(candidates[i]);
    outside_quantized_.push_back(base::exp_f64(logits[i] - lse_));
  }
  const auto count = static_cast<std::int64_t>(outside_reference_.size());
  outside_reference_mass_ = sum(outside_reference_.data(), count);
  outside_quantized_mass_ = sum(outside_quantized_.data(), count);
}

/// d_loc over U for the window's masses exp(z - shift), where `scale` = exp(lse - shift).
double StepWindow::drift_of(const double* window_mass, double scale) const {
  const double p_mass = reference_mass_ + outside_reference_mass_;
  const double q_mass = sum(window_mass, k()) + outside_quantized_mass_ * scale;
  const auto outside = static_cast<std::int64_t>(outside_reference_.size());
  const double squares =
      squared_distance(reference_probability_.data(), p_mass, window_mass, q_mass, k()) +
      squared_distance(outside_reference_.data(), p_mass, outside_quantized_.data(), q_mass / scale,
                       outside);
  return std::sqrt(squares);
}

bool StepWindow::top1_of(std::span<const float> edited) const {
  std::int32_t best = next_id_;
  float best_logit = next_logit_;
  for (std::size_t i = 0; i < edited.size(); ++i) {
    const bool better =
        best < 0 || edited[i] > best_logit || (edited[i] == best_logit && ids_[i] < best);
    if (!better) continue;
    best = ids_[i];
    best_logit = edited[i];
  }
  return best == reference_top_;
}

StepWindow::Metrics StepWindow::before() const {
  return {kl_, drift_, lse_ - target_logit_, ids_.front() == reference_top_};
}

StepWindow::Metrics StepWindow::after(std::span<const float> edited) const {
  // Masses in units of exp(shift): lse, unless the edit would overflow.
  const double shift = std::max<double>(lse_, *std::max_element(edited.begin(), edited.end()));
  const double scale = base::exp_f64(lse_ - shift);
  edited_probability_.resize(edited.size());
  exponentiate(edited.data(), k(), shift, edited_probability_.data());
  const double mass = sum(edited_probability_.data(), k());

  // How far the log-sum-exp moves. log1p keeps small moves exact (none is exactly 0); where most of
  // the mass goes, its sum is formed anew.
  const double moved = mass - quantized_mass_;
  const double lse_change = shift == lse_ && moved > -0.5
                                ? base::log1p_f64(moved)
                                : (shift - lse_) + base::log_f64(mass + tail_ * scale);
  Metrics metrics;
  metrics.kl = kl_ + cross_term(reference_probability_.data(), logits_.data(), edited.data(), k()) +
               lse_change;
  if (metrics.kl < 0.0) metrics.kl = 0.0;  // rounding of the stored f32
  metrics.drift = drift_of(edited_probability_.data(), scale);
  metrics.nll = lse_ + lse_change - (target_slot_ < 0 ? target_logit_ : edited[target_slot_]);
  metrics.top1 = top1_of(edited);
  return metrics;
}

/// Log-sum-exp of a row whose window holds the reference's mass while its tail stays as it is. With
/// nothing outside the window any will do.
double StepWindow::aligned_lse() const {
  const double reference_tail = std::max(1.0 - reference_mass_, kTailFloor);
  const double offset =
      tail_ > 0.0 ? base::log_f64(std::max(tail_, kTailFloor) / reference_tail) : 0.0;
  return lse_ + offset;
}

void StepWindow::oracle(std::span<float> edited) const {
  // p~ = p_fp on S: z~ = log p_fp + log(tail of z_q / tail of p_fp).
  const double lse = aligned_lse();
  for (std::size_t i = 0; i < edited.size(); ++i) {
    edited[i] = static_cast<float>(reference_logits_[i] - reference_lse_ + lse);
  }
}

void StepWindow::align_mass(std::span<float> edited) const {
  const double top = *std::max_element(edited.begin(), edited.end());
  edited_probability_.resize(edited.size());
  exponentiate(edited.data(), k(), top, edited_probability_.data());
  const double own = top + base::log_f64(sum(edited_probability_.data(), k()));
  const double wanted = aligned_lse() + base::log_f64(std::max(reference_mass_, kTailFloor));
  for (float& logit : edited) logit = static_cast<float>(logit + (wanted - own));
}

}  // namespace dgap::statistics
