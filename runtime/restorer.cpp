#include "runtime/restorer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "runtime/adaptive_window.hpp"
#include "runtime/features.hpp"
#include "runtime/row_io.hpp"

namespace dgap::runtime {
namespace {

static_assert(kDetectorWidth == schemas::kDetectorInputs1);
static_assert(kCandidateWidth == schemas::kCandidateInputs1);
static_assert(kContextWidth == schemas::kContextInputs2);

/// K_b, once the bundle's features are ours and its vocabulary holds a window.
int checked_window(const schemas::Bundle& bundle, const schemas::PrecisionEntry& entry) {
  if (bundle.features_version != kFeaturesVersion ||
      !std::equal(kDetectorFeatures.begin(), kDetectorFeatures.end(), bundle.feature_names.begin(),
                  bundle.feature_names.end())) {
    throw schemas::UnsupportedBundleError(
        "the bundle's features are not those that this runtime computes (version " +
        std::to_string(kFeaturesVersion) + ")");
  }
  if (entry.window < 1 || entry.window > bundle.base_model.vocab_size) {
    throw base::IoError("the bundle's window of " + std::to_string(entry.window) +
                        " candidates does not fit its vocabulary of " +
                        std::to_string(bundle.base_model.vocab_size));
  }
  return entry.window;
}

}  // namespace

const schemas::PrecisionEntry& entry_of(const schemas::Bundle& bundle, std::string_view precision) {
  const auto found = bundle.precisions.find(precision);
  if (found != bundle.precisions.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : bundle.precisions) names.push_back(name);
  throw base::UsageError("the bundle has no precision \"" + std::string(precision) + "\"; it has " +
                         base::join(names));
}

Restorer::Restorer(const schemas::Bundle& bundle, std::string_view precision)
    : Restorer(bundle, entry_of(bundle, precision)) {}

Restorer::Restorer(const schemas::Bundle& bundle, const schemas::PrecisionEntry& entry)
    : vocab_size_(bundle.base_model.vocab_size),
      window_(checked_window(bundle, entry)),
      window_mass_(entry.window_mass),
      mode_(entry.mode == "always" ? Mode::always
            : entry.mode == "off"  ? Mode::off
                                   : Mode::threshold),
      tau_(entry.tau),
      escalate_tau_(entry.escalate_tau.value_or(1.0)),  // no score is above 1
      detector_(entry.detector, bundle.tensors),
      corrector_(entry.corrector, bundle.tensors),
      scan_(vocab_size_, window_),
      row_(static_cast<std::size_t>(vocab_size_)),
      hidden_(static_cast<std::size_t>(corrector_.hidden_size())),
      values_(static_cast<std::size_t>(window_)),
      edited_(static_cast<std::size_t>(window_)),
      ids_(static_cast<std::size_t>(window_)),
      detector_scratch_(detector_.scratch_floats()),
      corrector_scratch_(corrector_.scratch(window_)) {}

void Restorer::run(const dgap_logits& view, bool edit, dgap_result* results, const Context* context,
                   const dgap_logits* hidden) noexcept {
  auto* const data = static_cast<std::byte*>(view.data);
  for (std::int64_t r = 0; r < view.rows; ++r) {
    const float* state = nullptr;
    if (hidden != nullptr) {
      const auto* const row = static_cast<const std::byte*>(hidden->data) + r * hidden->row_stride;
      state = load_row(row, *hidden, hidden_size(), hidden_.data());
    }
    results[r] = run_row(data + r * view.row_stride, view, edit, context, state);
    if (controller_ != nullptr && edit) controller_->observe(results[r].verdict == DGAP_RESTORE);
  }
}

dgap_result Restorer::run_row(std::byte* row, const dgap_logits& view, bool edit,
                              const Context* context, const float* hidden) {
  constexpr float kNoRisk = std::numeric_limits<float>::quiet_NaN();
  const RowStatistics statistics = scan_.assign(row_of(row, view, vocab_size_, row_.data()));
  if (!statistics.valid) return {DGAP_REJECTED, 0, kNoRisk};
  const std::int64_t most = scan_.top(ids_.data(), values_.data());
  const auto k = static_cast<std::int32_t>(adaptive_window(
      {values_.data(), static_cast<std::size_t>(most)}, statistics.lse, window_mass_));
  const std::span<const float> window(values_.data(), static_cast<std::size_t>(k));
  detector_features(window, statistics.lse, statistics.entropy, phi_);
  const float risk = detector_.risk(phi_, detector_scratch_.data());
  if (std::isnan(risk)) return {DGAP_REJECTED, k, kNoRisk};
  if (escalate_tau_ < 1.0 && detector_.escalation(phi_, detector_scratch_.data()) > escalate_tau_) {
    return {DGAP_ESCALATE, k, risk};
  }
  const double tau = controller_ != nullptr ? controller_->tau() : tau_;
  const bool restore = mode_ == Mode::always || (mode_ == Mode::threshold && risk > tau);
  if (!restore) return {DGAP_KEEP, k, risk};
  const CorrectorStep step{phi_,    window, statistics.lse, {ids_.data(), window.size()},
                           context, hidden};
  if (edit && !correct(row, view, step)) return {DGAP_REJECTED, k, risk};
  return {DGAP_RESTORE, k, risk};
}

bool Restorer::correct(std::byte* row, const dgap_logits& view, const CorrectorStep& step) {
  const std::span<const float> window = step.window;
  corrector_.deltas(step, edited_.data(), corrector_scratch_);
  for (std::size_t i = 0; i < window.size(); ++i) {
    edited_[i] += window[i];
    if (!std::isfinite(edited_[i])) return false;
  }
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (edited_[i] != window[i]) store_logit(row, view, ids_[i], edited_[i]);
  }
  return true;
}

}  // namespace dgap::runtime
