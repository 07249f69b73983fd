#include <string>

#include "schemas/scheme/check.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/scheme.hpp"
#include "schemas/scheme/stack_presets.hpp"

namespace dgap::schemas {
namespace {

bool is_name(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 128 && name != "." && name != ".." &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

void check_window(const Check& check, const std::string& which, const TensorScheme& tensor,
                  int residual_window) {
  if (tokens_per_step(tensor) == 1) return;
  const std::string group =
      which + ".group_size " + std::to_string(tensor.group_size) + " (in tokens)";
  check.require(tensor.window != WindowRule::none,
                which + ".window is none, but " + group +
                    " must gather before they are codes; use sliding, lagging or flush");
  if (tensor.window == WindowRule::flush)
    check.require(residual_window > 0 && residual_window % tensor.group_size == 0,
                  group + " does not divide residual_window " + std::to_string(residual_window) +
                      ", and " + which + ".window flush turns all of it into groups at once");
}

void check_family(const Check& check, const Scheme& scheme) {
  if (scheme.family == "custom") return;
  if (const std::optional<bool> fits_stack = is_of_stack(scheme)) {
    check.require(*fits_stack, "its quantizers are not those of family '" + scheme.family +
                                   "'; a scheme with settings of its own is family: custom");
    return;
  }
  const bool known = scheme.family == "centred" || scheme.family == "rotated" ||
                     scheme.family == "uniform" || scheme.family == "exact" ||
                     scheme.family == "kivi";
  check.require(known, "family is '" + scheme.family +
                           "'; it must be centred, rotated, uniform, exact, kivi, llamacpp, vllm, "
                           "turboquant, kvarn or custom");
  check.require(scheme.family != "exact" || (scheme.key.bits == 16 && scheme.value.bits == 16),
                "family exact has key.bits and value.bits 16");
  const Scheme expected =
      scheme.family == "kivi"
          ? kivi_scheme(scheme.key.bits, scheme.value.bits, scheme.key.group_size)
          : family_scheme(scheme.family, scheme.key.bits, scheme.value.bits);
  check.require(expected.family == scheme.family && expected.key == scheme.key &&
                    expected.value == scheme.value &&
                    expected.key_before_rope == scheme.key_before_rope,
                "its tensors are not those of family '" + scheme.family +
                    "'; a scheme with settings of its own is family: custom");
}

}  // namespace

void validate(const Scheme& scheme, int head_dim) {
  const Check check(scheme.name);
  check.require(is_name(scheme.name),
                "a name has 1 to 128 characters out of A-Z a-z 0-9 . _ - and is neither . nor ..");
  check_tensor(check, "key", scheme.key, head_dim);
  check_tensor(check, "value", scheme.value, head_dim);
  check_window(check, "key", scheme.key, scheme.residual_window);
  check_window(check, "value", scheme.value, scheme.residual_window);
  check.require(!scheme.key_before_rope || scheme.key.bits != 16,
                "key_before_rope has no meaning where key.bits is 16; set it to false");
  check.range("residual_window", scheme.residual_window, 0, kMaxWindow);
  check.range("sink_tokens", scheme.sink_tokens, 0, kMaxSinks);
  check.require(
      scheme.rotation_seed <= kMaxSeed,
      "rotation_seed is " + std::to_string(scheme.rotation_seed) + "; it must be at most 2^53 - 1");
  check.require(scheme.prefill == PrefillMode::exact,
                "prefill: quantized is not available in this version; use prefill: exact");
  check_family(check, scheme);
}

}  // namespace dgap::schemas
