#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/scheme/index_set.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/preset_reader.hpp"
#include "schemas/scheme/scheme.hpp"
#include "schemas/scheme/stack_presets.hpp"

namespace dgap::schemas {
namespace {

constexpr std::string_view kGrammar =
    "[centred-|rotated-|uniform-]K<b>V<b>[-R<n>][-S<n>] with b one of 1, 2, 3, 4, 8 and 16 "
    "(exact), "
    "n a number of tokens; exact; kivi-<b>[-g<n>][-R<n>] with b one of 1, 2, 3, 4 and 8, g a "
    "group; "
    "asymkv-<layers>-<layers>[-g<n>][-R<n>]";
constexpr int kKiviResidual = 128;
constexpr std::array<std::string_view, 3> kFamilies = {"centred", "rotated", "uniform"};

TensorScheme plain(int bits) {
  TensorScheme tensor;
  tensor.bits = bits;
  tensor.quantizer = default_quantizer(bits);
  return tensor;
}

std::vector<int> first_layers(int count) {
  std::vector<int> layers(static_cast<std::size_t>(count));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

/// The rest of a name whose bits have been read: [-g<n>][-R<n>].
std::optional<Scheme> parse_kivi(PresetReader reader, int bits) {
  int group = 32, residual = kKiviResidual;
  if (!reader.option("-g", kMaxGroup, group)) return std::nullopt;
  if (!reader.option("-R", kMaxWindow, residual)) return std::nullopt;
  Scheme scheme = kivi_scheme(bits, bits, group);
  scheme.residual_window = residual;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

std::optional<Scheme> parse_asymkv(PresetReader reader) {
  const std::optional<int> keys = reader.number(kMaxIndex);
  if (!keys || !reader.take("-")) return std::nullopt;
  const std::optional<int> values = reader.number(kMaxIndex);
  if (!values) return std::nullopt;
  std::optional<Scheme> scheme = parse_kivi(reader, 1);
  if (!scheme) return std::nullopt;
  TensorScheme key = scheme->key, value = scheme->value;
  key.bits = value.bits = 2;
  if (*keys > 0) scheme->overrides.push_back({.layers = first_layers(*keys), .key = key});
  if (*values > 0) scheme->overrides.push_back({.layers = first_layers(*values), .value = value});
  return scheme;
}

std::optional<Scheme> parse(std::string_view name) {
  if (name == "exact") name = "K16V16";
  if (std::optional<Scheme> stack = parse_stack_preset(name)) return stack;
  PresetReader reader(name);
  if (reader.take("asymkv-")) return parse_asymkv(reader);
  if (reader.take("kivi-")) {
    const std::optional<int> bits = reader.bits();
    return bits && *bits != 16 ? parse_kivi(reader, *bits) : std::nullopt;
  }
  std::string_view family = "centred";
  for (const std::string_view candidate : kFamilies)
    if (reader.take(std::string(candidate) + "-")) {
      family = candidate;
      break;
    }
  if (!reader.take("K")) return std::nullopt;
  const std::optional<int> key = reader.bits();
  if (!key || !reader.take("V")) return std::nullopt;
  const std::optional<int> value = reader.bits();
  if (!value) return std::nullopt;
  Scheme scheme = family_scheme(family, *key, *value);
  if (!reader.option("-R", kMaxWindow, scheme.residual_window)) return std::nullopt;
  if (!reader.option("-S", kMaxSinks, scheme.sink_tokens)) return std::nullopt;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

std::string nearest_preset(std::string_view name) {
  std::vector<std::string> names = {"exact",      "kivi-2",      "kivi-4",     "kivi-2-g64",
                                    "kivi-4-g64", "kivi-2-g128", "kivi-4-g128"};
  for (const std::string_view family : {"", "centred-", "rotated-", "uniform-"})
    for (const int key : kBitWidths)
      for (const int value : kBitWidths)
        names.push_back(std::string(family) + "K" + std::to_string(key) + "V" +
                        std::to_string(value));
  for (std::string& stack : stack_presets()) names.push_back(std::move(stack));
  const std::vector<std::string_view> views(names.begin(), names.end());
  return std::string(base::nearest(name, views));
}

}  // namespace

Scheme family_scheme(std::string_view family, int key_bits, int value_bits) {
  Scheme scheme;
  scheme.key = plain(key_bits);
  scheme.value = plain(value_bits);
  const bool exact = key_bits == 16 && value_bits == 16;
  scheme.family = exact ? "exact" : std::string(family);
  if (family == "centred") {
    scheme.key_before_rope = scheme.key.center = scheme.key.normalize = key_bits < 16;
    scheme.value.center = scheme.value.rotate = value_bits < 16;
    scheme.sink_tokens = exact ? 0 : 4;
  } else if (family == "rotated") {
    scheme.key.rotate = key_bits < 16;
    scheme.value.rotate = value_bits < 16;
  }
  return scheme;
}

Scheme kivi_scheme(int key_bits, int value_bits, int group) {
  Scheme scheme;
  scheme.family = "kivi";
  scheme.key.quantizer = scheme.value.quantizer = Quantizer::asymmetric_fp16;
  scheme.key.bits = key_bits, scheme.value.bits = value_bits;
  scheme.key.group_size = scheme.value.group_size = group;
  scheme.key.axis = GroupAxis::channel;
  scheme.key.window = WindowRule::flush, scheme.value.window = WindowRule::lagging;
  scheme.residual_window = kKiviResidual;
  return scheme;
}

Scheme preset(std::string_view name) {
  std::optional<Scheme> scheme = parse(name);
  if (!scheme) {
    const std::string near = nearest_preset(name);
    throw base::UsageError("'" + std::string(name) + "' is not a preset of a cache scheme" +
                           (near.empty() ? "" : "; the nearest is '" + near + "'") +
                           ". Presets are " + std::string(kGrammar) + "; " +
                           std::string(kStackGrammar));
  }
  scheme->name = name;
  return *std::move(scheme);
}

}  // namespace dgap::schemas
