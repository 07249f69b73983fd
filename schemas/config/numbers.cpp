#include "schemas/config/numbers.hpp"

#include <charconv>

namespace dgap::schemas {
namespace {

constexpr const char* kLeadingZero =
    "a leading zero is ambiguous (write the number without it, or 0o for octal)";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool take_sign(std::string_view& text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return negative;
}

std::size_t take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  text.remove_prefix(n);
  return n;
}

bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

/// Whether all of `text` is digits, fraction and exponent as YAML 1.2 has them.
bool is_decimal_real(std::string_view text) {
  std::size_t digits = take_digits(text);
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    digits += take_digits(text);
  }
  if (digits == 0) return false;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    take_sign(text);
    if (take_digits(text) == 0) return false;
  }
  return text.empty();
}

}  // namespace

std::string parse_integer(std::string_view text, bool& negative, std::uint64_t& magnitude) {
  negative = take_sign(text);
  if (has_leading_zero(text)) return kLeadingZero;
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'o' || text[1] == 'x')) {
    base = text[1] == 'o' ? 8 : 16;
    text.remove_prefix(2);
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, magnitude, base);
  if (error == std::errc::result_out_of_range && stop == end) return "it does not fit in 64 bits";
  if (error != std::errc() || stop != end) return "it is not an integer";
  return "";
}

std::string parse_real(std::string_view text, double& value) {
  std::string_view unsigned_text = text;
  const bool negative = take_sign(unsigned_text);
  if (!is_decimal_real(unsigned_text)) return "it is not a finite number";
  if (has_leading_zero(unsigned_text)) return kLeadingZero;
  const char* const end = unsigned_text.data() + unsigned_text.size();
  const auto [stop, error] = std::from_chars(unsigned_text.data(), end, value);
  if (error != std::errc() || stop != end) return "it is beyond the range of a 64-bit number";
  if (negative) value = -value;
  return "";
}

}  // namespace dgap::schemas
