#include <algorithm>
#include <string>

#include "schemas/scheme/check.hpp"
#include "schemas/scheme/index_set.hpp"
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
  const bool hf = tensor.quantizer == Quantizer::quanto || tensor.quantizer == Quantizer::hqq;
  check.require(
      hf == (tensor.window == WindowRule::requantize),
      which + ".window requantize belongs to quantizers quanto and hqq, which have no other");
  check.require(!hf || residual_window > 0,
                which +
                    ": residual_window must be positive, the tokens after which all is coded "
                    "anew");
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

/// What the tensor takes from an exact prefix, which prefill: quantized has none of.
bool needs_prefix(const TensorScheme& tensor) {
  const bool fp8 =
      tensor.quantizer == Quantizer::fp8_e4m3 || tensor.quantizer == Quantizer::fp8_e5m2;
  return tensor.center || tensor.normalize || tensor.outlier_bits != 0 ||
         (fp8 && tensor.scale == 0.0f);
}

void check_part(const Check& check, const std::string& which, const TensorScheme& tensor,
                const Scheme& scheme, int head_dim) {
  check_tensor(check, which, tensor, head_dim);
  check_window(check, which, tensor, scheme.residual_window);
  check.require(tensor.window != WindowRule::requantize ||
                    (scheme.sink_tokens == 0 && scheme.prefill == PrefillMode::exact),
                which +
                    ".window is requantize, which codes the whole prefix after an exact prefill; "
                    "set sink_tokens to 0 and prefill to exact");
  check.require(scheme.prefill == PrefillMode::exact || !needs_prefix(tensor),
                which + ".center, " + which +
                    ".normalize, outliers and fp8 scales of 0 take "
                    "statistics over an exact prefix, which prefill: quantized has none of; leave "
                    "them out, or set prefill to exact");
}

void check_indices(const Check& check, const std::string& key, const std::vector<int>& indices,
                   int count, const std::string& what) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    check.require(
        indices[i] >= 0 && indices[i] <= kMaxIndex && (i == 0 || indices[i] > indices[i - 1]),
        key + " must be ascending numbers from 0 to " + std::to_string(kMaxIndex));
  check.require(count <= 0 || indices.empty() || indices.back() < count,
                key + " has " + std::to_string(indices.empty() ? 0 : indices.back()) +
                    ", but the model's " + what + " are 0 to " + std::to_string(count - 1));
}

void check_model(const Check& check, const std::string& key, int expected, int count,
                 const std::string& what) {
  check.range(key, expected, 0, kMaxIndex + 1);
  check.require(expected == 0 || count <= 0 || expected == count,
                key + ": its overrides are for a model of " + std::to_string(expected) + " " +
                    what + ", and this one has " + std::to_string(count));
}

void check_boundary(const Check& check, const Scheme& scheme, int layers) {
  check.range("boundary_layers", scheme.boundary_layers, 0, kMaxIndex);
  check.require(layers <= 0 || scheme.boundary_layers == 0 || 2 * scheme.boundary_layers < layers,
                "boundary_layers is " + std::to_string(scheme.boundary_layers) +
                    ", which leaves none of the model's " + std::to_string(layers) +
                    " layers quantised; set it to 0");
}

void check_calibration(const Check& check, const Scheme& scheme) {
  check.require(needs_calibration(scheme) ||
                    (scheme.calibration.empty() && scheme.calibration_sha256.empty()),
                "calibration belongs to quantizer kvquant; leave it out");
  const std::string& hash = scheme.calibration_sha256;
  check.require(hash.empty() || (hash.size() == 64 &&
                                 hash.find_first_not_of("0123456789abcdef") == std::string::npos),
                "calibration_sha256 must be 64 hexadecimal digits");
}

void check_override(const Check& check, const std::string& path, const Override& part,
                    const Scheme& scheme, const ModelShape& model) {
  check_indices(check, path + "layers", part.layers, model.layers, "layers");
  check_indices(check, path + "heads", part.heads, model.kv_heads, "KV heads");
  check.require(part.key || part.value, path + "key or " + path + "value must be given");
  const auto whole = [&](const std::optional<TensorScheme>& to, const TensorScheme& from) {
    const auto shared = [](const TensorScheme& t) { return spans_heads(t) || t.layer_scale; };
    return !to || part.heads.empty() || *to == from || !(shared(*to) || shared(from));
  };
  check.require(whole(part.key, scheme.key) && whole(part.value, scheme.value),
                path + "heads: codes or scales there span the heads of a layer; leave heads out");
  if (part.key) check_part(check, path + "key", *part.key, scheme, model.head_dim);
  if (part.value) check_part(check, path + "value", *part.value, scheme, model.head_dim);
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
                           "turboquant, kvarn, kvquant, hf or custom");
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

bool holds(const std::vector<int>& indices, int index) {
  return indices.empty() || std::binary_search(indices.begin(), indices.end(), index);
}

}  // namespace

bool needs_calibration(const Scheme& scheme) {
  const auto spans = [](const std::optional<TensorScheme>& tensor) {
    return tensor && tensor->quantizer == Quantizer::kvquant;
  };
  return spans(scheme.key) || spans(scheme.value) ||
         std::any_of(scheme.overrides.begin(), scheme.overrides.end(),
                     [&](const Override& part) { return spans(part.key) || spans(part.value); });
}

HeadScheme head_scheme(const Scheme& scheme, int layers, int layer, int head) {
  HeadScheme made{scheme.key, scheme.value};
  if (layer < scheme.boundary_layers || layer >= layers - scheme.boundary_layers) made = {};
  for (const Override& part : scheme.overrides) {
    if (!holds(part.layers, layer) || !holds(part.heads, head)) continue;
    if (part.key) made.key = *part.key;
    if (part.value) made.value = *part.value;
  }
  return made;
}

void validate(const Scheme& scheme, const ModelShape& model) {
  const Check check(scheme.name);
  check.require(is_name(scheme.name),
                "a name has 1 to 128 characters out of A-Z a-z 0-9 . _ - and is neither . nor ..");
  check_part(check, "key", scheme.key, scheme, model.head_dim);
  check_part(check, "value", scheme.value, scheme, model.head_dim);
  check_model(check, "model_layers", scheme.model_layers, model.layers, "layers");
  check_model(check, "model_kv_heads", scheme.model_kv_heads, model.kv_heads, "KV heads");
  check_boundary(check, scheme, model.layers);
  check_calibration(check, scheme);
  for (std::size_t i = 0; i < scheme.overrides.size(); ++i)
    check_override(check, "overrides." + std::to_string(i) + ".", scheme.overrides[i], scheme,
                   model);
  const auto quantises_keys = [](const Override& part) { return part.key && part.key->bits != 16; };
  check.require(!scheme.key_before_rope || scheme.key.bits != 16 ||
                    std::any_of(scheme.overrides.begin(), scheme.overrides.end(), quantises_keys),
                "key_before_rope has no meaning where key.bits is 16; set it to false");
  check.range("residual_window", scheme.residual_window, 0, kMaxWindow);
  check.range("sink_tokens", scheme.sink_tokens, 0, kMaxSinks);
  check.require(
      scheme.rotation_seed <= kMaxSeed,
      "rotation_seed is " + std::to_string(scheme.rotation_seed) + "; it must be at most 2^53 - 1");
  check_family(check, scheme);
}

}  // namespace dgap::schemas
