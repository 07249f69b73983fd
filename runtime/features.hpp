#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

/// The detector's features (arXiv:2607.16248 Eq. 6) and the corrector's candidate features (Eq.
/// 12), computed from the quantised decode alone. Version 1; formulas in docs/features.md.
namespace dgap::runtime {

inline constexpr int kFeaturesVersion = 1;
// clang-format off
inline constexpr std::array<std::string_view, 20> kDetectorFeatures = {
    "entropy", "top_mass", "top1", "top2_mass", "top5_mass", "top10_mass",
    "gap12", "gap23", "gap34", "gap_mean10", "gap_std10", "gap_min10",
    "margin5", "margin10", "marginK",
    "window_entropy", "collision", "window_variance", "log_odds_top_mass", "log_candidates"};
inline constexpr std::array<std::string_view, 7> kCandidateFeatures = {
    "centred_logit", "probability", "log_probability", "rank",
    "margin_top", "margin_up", "margin_down"};
// clang-format on
inline constexpr int kDetectorWidth = static_cast<int>(kDetectorFeatures.size());
inline constexpr int kCandidateWidth = static_cast<int>(kCandidateFeatures.size());

/// Phi. `window`: the K_b window's logits, descending, finite; `out` holds kDetectorWidth floats.
void detector_features(std::span<const float> window, double lse, float entropy, float* out);

/// Xi of every candidate, row-major [window.size(), kCandidateWidth], rows `stride` floats apart.
/// rank = log1p(0-based rank).
void candidate_features(std::span<const float> window, double lse, float* out,
                        std::int64_t stride = kCandidateWidth);

}  // namespace dgap::runtime
