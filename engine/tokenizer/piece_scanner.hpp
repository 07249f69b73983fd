#pragma once
#include <cstddef>
#include <string_view>

namespace dgap::engine {

/// The end of the piece that a pattern matches at `at` (< text.size()); `at` where a character
/// decides it that the scanner does not know. Scanners know ASCII and the letters and punctuation
/// that most books need, and are several times as fast as a regular expression there; what they do
/// not know is left to the regular expression, so that results are the same.
using PieceScanner = std::size_t (*)(std::string_view text, std::size_t at);

std::size_t scan_gpt2(std::string_view text, std::size_t at);
std::size_t scan_digits_then_gpt2(std::string_view text, std::size_t at);
std::size_t scan_llama3(std::string_view text, std::size_t at);
std::size_t scan_qwen2(std::string_view text, std::size_t at);

}  // namespace dgap::engine
