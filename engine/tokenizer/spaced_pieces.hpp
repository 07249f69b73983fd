#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/tokenizer/utf8.hpp"

// Tokens of SentencePiece's vocabularies, as files write them: U+2581 for spaces, <0x0A> for bytes.
namespace dgap::engine {

inline std::string marks_to_spaces(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool mark = piece.substr(at).starts_with(kSpaceMark);
    text += mark ? ' ' : piece[at];
    at += mark ? kSpaceMark.size() : 1;
  }
  return text;
}

inline std::string byte_name(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4 & 15] + kDigits[byte & 15] + ">";
}

/// The byte that a token stands for; nothing where it is not written as one.
inline std::optional<char> byte_of(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return {};
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (digit(name[3]) < 0 || digit(name[4]) < 0) return {};
  return static_cast<char>(digit(name[3]) << 4 | digit(name[4]));
}

}  // namespace dgap::engine
