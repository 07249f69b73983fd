#include "schemas/scheme/stack_presets.hpp"

#include <array>

#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/names.hpp"
#include "schemas/scheme/preset_reader.hpp"

namespace dgap::schemas {
namespace {

constexpr std::array kBlockTypes = {Quantizer::q8_0, Quantizer::q5_1, Quantizer::q5_0,
                                    Quantizer::q4_1, Quantizer::q4_0, Quantizer::iq4_nl};

std::optional<TensorScheme> take_block(PresetReader& reader, RotationKind rotation) {
  TensorScheme tensor;
  if (reader.take("f16")) return tensor;
  for (const Quantizer type : kBlockTypes) {
    if (!reader.take(name_of(type))) continue;
    tensor.quantizer = type;
    tensor.bits = bit_widths(type).single();
    tensor.group_size = kBlockSize;
    tensor.rotate = true;
    tensor.rotation = rotation;
    tensor.window = WindowRule::none;
    return tensor;
  }
  return std::nullopt;
}

void unrotate(TensorScheme& tensor) {
  tensor.rotate = false;
  tensor.rotation = RotationKind::signed_hadamard;
}

/// Keys times H_n, values times blocks of H_64; every row is read back from the cache.
std::optional<Scheme> parse_llamacpp(PresetReader reader) {
  Scheme scheme;
  scheme.family = "llamacpp";
  scheme.prefill = PrefillMode::quantized;
  PresetReader same = reader;
  const auto key = take_block(reader, RotationKind::hadamard_blocks);
  if (!key) return std::nullopt;
  scheme.key = *key;
  scheme.value = *take_block(same, RotationKind::hadamard_64);
  PresetReader second = reader;
  if (second.take("-")) {
    if (const auto value = take_block(second, RotationKind::hadamard_64)) {
      scheme.value = *value;
      reader = second;
    }
  }
  if (reader.take("-norot")) {
    unrotate(scheme.key);
    unrotate(scheme.value);
  }
  const bool exact = scheme.key.bits == 16 && scheme.value.bits == 16;
  return reader.done() && !exact ? std::optional(scheme) : std::nullopt;
}

TensorScheme fp8(Quantizer format) {
  return {.bits = 8, .quantizer = format, .window = WindowRule::none};
}

std::optional<Scheme> parse_vllm_fp8(PresetReader reader, Quantizer format) {
  Scheme scheme;
  scheme.family = "vllm";
  scheme.key = scheme.value = fp8(format);
  scheme.key.layer_scale = scheme.value.layer_scale = true;
  if (reader.take("-per_head")) scheme.key.layer_scale = scheme.value.layer_scale = false;
  if (reader.take("-unscaled")) {
    scheme.key.layer_scale = scheme.value.layer_scale = false;
    scheme.key.scale = scheme.value.scale = 1.0f;
    scheme.prefill = PrefillMode::quantized;
  }
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

/// vLLM's turboquant: keys fp8, or norm-corrected codes of Hadamard-rotated directions; values
/// min-max by token; two layers at either end as they are.
Scheme vllm_turboquant(int key_bits, int value_bits) {
  Scheme scheme;
  scheme.family = "vllm";
  scheme.boundary_layers = 2;
  scheme.key = fp8(Quantizer::fp8_e4m3);
  if (key_bits < 8) {
    scheme.key.bits = key_bits;
    scheme.key.quantizer = Quantizer::turboquant_mse;
    scheme.key.rotate = scheme.key.norm_correction = true;
  }
  scheme.value = {
      .bits = value_bits, .quantizer = Quantizer::asymmetric, .window = WindowRule::none};
  return scheme;
}

std::optional<Scheme> parse_vllm(PresetReader reader) {
  if (reader.take("fp8_e5m2")) return parse_vllm_fp8(reader, Quantizer::fp8_e5m2);
  if (reader.take("fp8")) return parse_vllm_fp8(reader, Quantizer::fp8_e4m3);
  struct Variant {
    std::string_view name;
    int key, value;
  };
  constexpr std::array kVariants = {Variant{"k8v4", 8, 4}, Variant{"4bit_nc", 4, 4},
                                    Variant{"k3v4_nc", 3, 4}, Variant{"3bit_nc", 3, 3}};
  for (const Variant& variant : kVariants)
    if (reader.take(variant.name) && reader.done())
      return vllm_turboquant(variant.key, variant.value);
  return std::nullopt;
}

/// arXiv:2504.19874. The inner-product codes are for keys; values are summed, not multiplied.
std::optional<Scheme> parse_turboquant(PresetReader reader) {
  const bool sketched = reader.take("prod-");
  TensorScheme tensor;
  tensor.quantizer = Quantizer::turboquant_mse;
  tensor.rotate = true;
  tensor.rotation = RotationKind::haar;
  tensor.window = WindowRule::none;
  const std::optional<int> bits = reader.number(4);
  if (!bits || *bits == 0) return std::nullopt;
  tensor.bits = *bits;
  if (reader.take(".5")) {
    if (*bits != 2 && *bits != 3) return std::nullopt;
    tensor.outlier_bits = *bits + 1;
  }
  Scheme scheme;
  scheme.family = "turboquant";
  scheme.key = scheme.value = tensor;
  if (sketched) scheme.key.quantizer = Quantizer::turboquant_prod;
  if (reader.take("-centred"))
    scheme.key_before_rope = scheme.key.center = scheme.value.center = true;
  if (!reader.option("-R", kMaxWindow, scheme.residual_window)) return std::nullopt;
  if (scheme.residual_window > 0) scheme.key.window = scheme.value.window = WindowRule::sliding;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

TensorScheme kvarn(int bits, GroupAxis axis, int tokens) {
  return {.bits = bits,
          .quantizer = Quantizer::kvarn,
          .axis = axis,
          .group_size = tokens,
          .rotate = true,
          .rotation = RotationKind::hadamard};
}

std::optional<Scheme> parse_kvarn(PresetReader reader) {
  Scheme scheme;
  scheme.family = "kvarn";
  scheme.sink_tokens = 128;
  const int key = reader.take("k4") ? 4 : reader.take("k2") ? 2 : 0;
  const int value = reader.take("v4") ? 4 : reader.take("v2") ? 2 : 0;
  if (key == 0 || value == 0 || value > key) return std::nullopt;
  int tokens = 128;
  if (!reader.option("-g", kMaxGroup, tokens)) return std::nullopt;
  if (!reader.option("-S", kMaxSinks, scheme.sink_tokens)) return std::nullopt;
  scheme.key = kvarn(key, GroupAxis::channel, tokens);
  scheme.value = kvarn(value, GroupAxis::token, tokens);
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

/// arXiv:2401.18079: keys before RoPE by channel, values by token, both over all heads of a layer;
/// the first token exact.
std::optional<Scheme> parse_kvquant(PresetReader reader) {
  const std::optional<int> bits = reader.number(4);
  int percent = 0;
  if (!bits || !fits(Quantizer::kvquant, *bits)) return std::nullopt;
  PresetReader sparse = reader;
  if (sparse.take("-")) {
    const std::optional<int> share = sparse.number(10);
    if (share && *share > 0 && sparse.take("p")) percent = *share, reader = sparse;
  }
  Scheme scheme;
  scheme.family = "kvquant";
  scheme.key = {.bits = *bits,
                .quantizer = Quantizer::kvquant,
                .axis = GroupAxis::channel,
                .window = WindowRule::none,
                .outliers = percent / 100.0,
                .q_norm = reader.take("-qnorm")};
  scheme.value = scheme.key;
  scheme.value.axis = GroupAxis::token;
  scheme.key_before_rope = true;
  scheme.sink_tokens = 1;
  scheme.prefill = PrefillMode::quantized;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

/// transformers' QuantizedCache over optimum-quanto or hqq. `-axis1` is the last axis: quanto's -1,
/// hqq's 1; else 0, the default of both.
std::optional<Scheme> parse_hf(PresetReader reader) {
  const bool quanto = reader.take("quanto-");
  if (!quanto && !reader.take("hqq-")) return std::nullopt;
  const Quantizer quantizer = quanto ? Quantizer::quanto : Quantizer::hqq;
  const std::optional<int> bits = reader.number(8);
  if (!bits || !fits(quantizer, *bits)) return std::nullopt;
  // Groups of neighbouring channels: axis 0 of quanto, 1 of hqq.
  const bool neighbours = reader.take("-axis1") != quanto;
  int group = 64;
  Scheme scheme;
  scheme.family = "hf";
  scheme.residual_window = 128;
  if (!reader.option("-g", kMaxGroup, group)) return std::nullopt;
  if (!reader.option("-R", kMaxWindow, scheme.residual_window)) return std::nullopt;
  scheme.key = {.bits = *bits,
                .quantizer = quantizer,
                .axis = neighbours ? GroupAxis::token : GroupAxis::channel,
                .group_size = group,
                .window = WindowRule::requantize};
  scheme.value = scheme.key;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

}  // namespace

std::optional<Scheme> parse_stack_preset(std::string_view name) {
  PresetReader reader(name);
  if (reader.take("llamacpp-")) return parse_llamacpp(reader);
  if (reader.take("vllm-")) return parse_vllm(reader);
  if (reader.take("turboquant-")) return parse_turboquant(reader);
  if (reader.take("kvarn-")) return parse_kvarn(reader);
  if (reader.take("hf-")) return parse_hf(reader);
  if (reader.take("kvquant-nuq")) return parse_kvquant(reader);
  return std::nullopt;
}

std::vector<std::string> stack_presets() {
  std::vector<std::string> names = {"vllm-fp8",     "vllm-fp8_e5m2", "vllm-k8v4",
                                    "vllm-4bit_nc", "vllm-k3v4_nc",  "vllm-3bit_nc",
                                    "kvarn-k4v2",   "kvarn-k4v4",    "kvarn-k2v2"};
  for (const char* hf : {"quanto-2", "quanto-4", "hqq-1", "hqq-2", "hqq-3", "hqq-4", "hqq-8"}) {
    names.push_back(std::string("hf-") + hf);
    names.push_back(names.back() + "-axis1");
  }
  for (const char* bits : {"2", "3", "4"}) {
    names.push_back(std::string("kvquant-nuq") + bits);
    names.push_back(names.back() + "-1p");
  }
  for (const Quantizer type : kBlockTypes) {
    const std::string name = "llamacpp-" + std::string(name_of(type));
    names.push_back(name);
    for (const Quantizer other : kBlockTypes)
      if (other != type) names.push_back(name + "-" + std::string(name_of(other)));
  }
  for (const char* bits : {"1", "2", "2.5", "3", "3.5", "4"}) {
    names.push_back(std::string("turboquant-") + bits);
    names.push_back(std::string("turboquant-prod-") + bits);
  }
  return names;
}

std::optional<bool> is_of_stack(const Scheme& scheme) {
  const auto both = [&](auto&& allowed) {
    return allowed(scheme.key.quantizer) && allowed(scheme.value.quantizer);
  };
  if (scheme.family == "llamacpp")
    return both([](Quantizer q) { return is_block(q) || q == Quantizer::exact; });
  if (scheme.family == "vllm")
    return both([](Quantizer q) {
      return q == Quantizer::fp8_e4m3 || q == Quantizer::fp8_e5m2 ||
             q == Quantizer::turboquant_mse || q == Quantizer::asymmetric;
    });
  if (scheme.family == "turboquant")
    return both([](Quantizer q) {
      return q == Quantizer::turboquant_mse || q == Quantizer::turboquant_prod;
    });
  if (scheme.family == "hf")
    return both([](Quantizer q) { return q == Quantizer::quanto || q == Quantizer::hqq; });
  if (scheme.family == "kvquant") return both([](Quantizer q) { return q == Quantizer::kvquant; });
  if (scheme.family == "kvarn") return both([](Quantizer q) { return q == Quantizer::kvarn; });
  return std::nullopt;
}

}  // namespace dgap::schemas
