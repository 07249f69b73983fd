#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schemas/scheme/limits.hpp"
#include "schemas/scheme/scheme.hpp"

namespace dgap::schemas {
namespace {

constexpr std::string_view kGrammar =
    "[centred-|rotated-|uniform-]K<b>V<b>[-R<n>][-S<n>] with b one of 1, 2, 4, 8 and 16 (exact), "
    "n a number of tokens, or exact";
constexpr std::array<std::string_view, 3> kFamilies = {"centred", "rotated", "uniform"};

/// Reads a preset's name from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  /// A decimal number in its one spelling: no sign, no leading zero.
  std::optional<int> number(int limit) {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc() || value < 0 || value > limit) return std::nullopt;
    if (rest_.front() == '-' || (rest_.front() == '0' && digits > 1)) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }
  std::optional<int> bits() {
    const std::optional<int> value = number(16);
    return value && is_bit_width(*value) ? value : std::nullopt;
  }

 private:
  std::string_view rest_;
};

TensorScheme plain(int bits) {
  TensorScheme tensor;
  tensor.bits = bits;
  tensor.quantizer = default_quantizer(bits);
  return tensor;
}

std::optional<Scheme> parse(std::string_view name) {
  if (name == "exact") name = "K16V16";
  Reader reader(name);
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
  const auto option = [&](std::string_view mark, int limit, int& field) {
    if (!reader.take(mark)) return true;
    const std::optional<int> number = reader.number(limit);
    if (number) field = *number;
    return number.has_value();
  };
  if (!option("-R", kMaxWindow, scheme.residual_window)) return std::nullopt;
  if (!option("-S", kMaxSinks, scheme.sink_tokens)) return std::nullopt;
  return reader.done() ? std::optional(scheme) : std::nullopt;
}

std::string nearest_preset(std::string_view name) {
  std::vector<std::string> names = {"exact"};
  for (const std::string_view family : {"", "centred-", "rotated-", "uniform-"})
    for (const int key : kBitWidths)
      for (const int value : kBitWidths)
        names.push_back(std::string(family) + "K" + std::to_string(key) + "V" +
                        std::to_string(value));
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

Scheme preset(std::string_view name) {
  std::optional<Scheme> scheme = parse(name);
  if (!scheme) {
    const std::string near = nearest_preset(name);
    throw base::UsageError("'" + std::string(name) + "' is not a preset of a cache scheme" +
                           (near.empty() ? "" : "; the nearest is '" + near + "'") +
                           ". Presets are " + std::string(kGrammar));
  }
  scheme->name = name;
  return *std::move(scheme);
}

}  // namespace dgap::schemas
