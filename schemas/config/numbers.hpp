#pragma once
#include <cstdint>
#include <string>
#include <string_view>

/// Strict numbers: nothing is guessed, nothing wraps. Both return what is wrong, empty when nothing
/// is.
namespace dgap::schemas {

/// [+-]? then decimal without leading zeros, 0o octal or 0x hexadecimal; magnitude within 64 bits.
std::string parse_integer(std::string_view text, bool& negative, std::uint64_t& magnitude);

/// [+-]? decimal with optional fraction and exponent, in the range of a double.
std::string parse_real(std::string_view text, double& value);

}  // namespace dgap::schemas
