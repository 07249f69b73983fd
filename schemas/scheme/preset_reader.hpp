#pragma once
#include <charconv>
#include <optional>
#include <string_view>

#include "schemas/scheme/limits.hpp"

namespace dgap::schemas {

/// Reads a preset's name from left to right.
class PresetReader {
 public:
  explicit PresetReader(std::string_view text) : rest_(text) {}
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
  /// Reads `mark` and a number into `field`, where the mark stands next. False where no number
  /// follows it.
  bool option(std::string_view mark, int limit, int& field) {
    if (!take(mark)) return true;
    const std::optional<int> value = number(limit);
    if (value) field = *value;
    return value.has_value();
  }

 private:
  std::string_view rest_;
};

}  // namespace dgap::schemas
