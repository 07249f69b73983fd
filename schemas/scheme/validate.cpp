#include <bit>
#include <string>

#include "base/error.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/names.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::schemas {
namespace {

/// Throws with the scheme's name before the message.
class Check {
 public:
  explicit Check(std::string_view name) : name_(name) {}
  void require(bool ok, const std::string& message) const {
    if (!ok) throw base::UsageError("scheme '" + name_ + "': " + message);
  }
  void range(std::string_view key, std::int64_t value, std::int64_t low, std::int64_t high) const {
    require(value >= low && value <= high, std::string(key) + " is " + std::to_string(value) +
                                               "; it must lie in [" + std::to_string(low) + ", " +
                                               std::to_string(high) + "]");
  }

 private:
  std::string name_;
};

bool is_name(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 128 && name != "." && name != ".." &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

bool fits(Quantizer quantizer, int bits) {
  switch (quantizer) {
    case Quantizer::exact:
      return bits == 16;
    case Quantizer::sign_mean:
      return bits == 1;
    case Quantizer::lloyd_max:
      return bits == 2;
    case Quantizer::symmetric:
      return bits == 2 || bits == 4 || bits == 8;
    case Quantizer::asymmetric:
    case Quantizer::asymmetric_fp16:
      return bits <= 8;
  }
  return false;
}

void check_tensor(const Check& check, const std::string& which, const TensorScheme& tensor,
                  int head_dim) {
  const std::string bits = which + ".bits";
  check.require(is_bit_width(tensor.bits), bits + " is " + std::to_string(tensor.bits) +
                                               "; it must be 1, 2, 4, 8 or 16 (exact)");
  const std::string quantizer = std::string(name_of(tensor.quantizer));
  check.require(fits(tensor.quantizer, tensor.bits),
                which + ".quantizer is " + quantizer + " at " + bits + " " +
                    std::to_string(tensor.bits) +
                    "; sign_mean has 1 bit, lloyd_max 2, symmetric 2, 4 or 8, asymmetric and "
                    "asymmetric_fp16 1 to 8, exact 16");
  const std::string group = which + ".group_size";
  if (tensor.quantizer == Quantizer::exact) {
    check.require(tensor == TensorScheme{}, which + " is exact (16 bits), so " + which +
                                                ".axis must be token, group_size 0, center, "
                                                "normalize and rotate false, window sliding");
    return;
  }
  if (tensor.group_size != 0 || tensor.axis == GroupAxis::channel)
    check.range(group, tensor.group_size, kMinGroup, kMaxGroup);
  if (head_dim <= 0) return;
  const std::string dim = "the model's head_dim " + std::to_string(head_dim);
  if (tensor.axis == GroupAxis::token && tensor.group_size != 0)
    check.require(head_dim % tensor.group_size == 0,
                  group + " " + std::to_string(tensor.group_size) + " does not divide " + dim +
                      "; choose a divisor of it, or 0 for one group per token");
  if (tensor.rotate)
    check.require(std::has_single_bit(static_cast<unsigned>(head_dim)),
                  which + ".rotate needs a power of two, but " + dim +
                      " is none; set rotate to false (family: custom) or use the uniform family");
}

void check_window(const Check& check, const std::string& which, const TensorScheme& tensor,
                  int residual_window) {
  if (tensor.axis != GroupAxis::channel) return;
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
  const bool known = scheme.family == "centred" || scheme.family == "rotated" ||
                     scheme.family == "uniform" || scheme.family == "exact" ||
                     scheme.family == "kivi";
  check.require(known, "family is '" + scheme.family +
                           "'; it must be centred, rotated, uniform, exact, kivi or custom");
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
