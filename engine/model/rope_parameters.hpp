#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace dgap::engine {

/// How a model's rotary position embeddings turn, as its file says (engine/cache/rope_frequencies
/// for the formulas). Names and defaults are those of Hugging Face configs.
struct RopeParameters {
  enum class Scaling { none, linear, dynamic, llama3, yarn };

  RopeParameters(double base = 10000.0) : theta(base) {}  // NOLINT: a plain base is enough

  double theta;
  Scaling scaling = Scaling::none;
  double factor = 1.0;
  std::int64_t original_context =
      0;  // dynamic, llama3, yarn: the length that the model was trained on
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  bool truncate = true;                                  // yarn: whole channels bound the ramp
  std::optional<double> attention_factor;                // yarn; by default from factor
  double mscale = 0.0, mscale_all_dim = 0.0;             // yarn; 0 = not given
  /// GGUF's `rope_freqs.weight`, [head_dim / 2]: each frequency is divided by its entry. Empty = 1.
  std::vector<double> divisors;
};

/// "none", "linear", "dynamic", "llama3", "yarn".
constexpr const char* name_of(RopeParameters::Scaling scaling) {
  constexpr const char* kNames[] = {"none", "linear", "dynamic", "llama3", "yarn"};
  return kNames[static_cast<int>(scaling)];
}

}  // namespace dgap::engine
