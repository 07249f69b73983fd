#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"
#include "trainer/losses.hpp"

namespace dgap::trainer {

/// What the losses need of every step of one precision, as columns: windows of K candidates in the
/// quantised order, `stride` apart and padded with their last value.
struct Samples {
  std::int64_t steps = 0;
  int window = 0;                  // K
  double mass = 1.0;               // ends a step's window before K (runtime::adaptive_window)
  std::int64_t stride = 0;         // K padded to base::kLanes
  std::vector<std::int32_t> size;  // candidates of the step, at most K
  std::vector<float> features;  // [steps, kDetectorWidth], as runtime::detector_features gives them
  std::vector<double> lse;      // of the quantised decode, as it is served
  std::vector<float> logits;    // [steps, stride] quantised
  bool takes_context = false, takes_hidden = false;
  std::int64_t vocab_size = 0, hidden_size = 0;
  std::vector<std::int32_t> ids;      // [steps, stride] tokens
  std::vector<std::uint16_t> hidden;  // [steps, hidden_size] binary16 where the corrector takes it
  std::vector<float> context;         // [steps, stride, kContextWidth] where the corrector takes it
  std::vector<std::uint8_t> label;    // y, arXiv:2607.16248 Eq. 9
  std::vector<float> weight;          // in the corrector's loss; mean 1
  std::vector<std::uint8_t> uncovered;  // distorted, but beyond the window's reach

  // The objective's target (WindowTarget).
  std::vector<float> target;  // [steps, stride]
  std::vector<std::uint8_t> has_tail;
  std::vector<float> tail_probability;
  std::vector<double> tail_logit, negative_entropy;

  // The reference's order, for pairs: candidate at each place and its p_fp, padded with
  // kRankingPad.
  std::vector<std::int32_t> ranked;       // [steps, stride]
  std::vector<float> ranked_probability;  // [steps, stride]

  std::span<const float> window_of(std::int64_t step) const {
    return {logits.data() + step * stride, static_cast<std::size_t>(size[step])};
  }
  /// Inputs of the shape network that are each candidate's own.
  int own_inputs() const;
  /// Them, of one step: [size, own_inputs()], as runtime::Corrector has them, rows `row` apart.
  void candidate_inputs(std::int64_t step, float* out, std::int64_t row) const;
  /// Numbers of a hidden state where they are taken, else 0.
  int hidden_width() const { return takes_hidden ? static_cast<int>(hidden_size) : 0; }
  void hidden_state(std::int64_t step, float* out) const;
  WindowTarget target_of(std::int64_t step) const;
  std::int64_t positives() const;
};

/// Columns of `trace` for windows of `window` candidates, or fewer where `mass` ends them. Computed
/// in parallel, step by step. FailedError naming split, book and step where a number is not finite,
/// or where training.weights leave nothing.
Samples make_samples(const schemas::TracePart& trace, std::size_t precision,
                     const schemas::Config& config, double alpha, int window, double mass = 1.0);

/// "book B, context L, start S, decode step t"
std::string describe_step(const schemas::TracePart& trace, std::int64_t step);

}  // namespace dgap::trainer
