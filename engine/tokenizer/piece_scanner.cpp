#include "engine/tokenizer/piece_scanner.hpp"

#include <array>
#include <cstdint>

#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

enum class Kind : std::uint8_t { letter, number, newline, space, other, unknown };

constexpr std::array<Kind, 256> make_kinds() {
  std::array<Kind, 256> kinds{};
  for (int c = 0; c < 256; ++c) {
    Kind kind = Kind::other;
    if (c >= 0x80) kind = Kind::unknown;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) kind = Kind::letter;
    if (c >= '0' && c <= '9') kind = Kind::number;
    if (c == ' ' || (c >= '\t' && c <= '\r')) kind = Kind::space;
    if (c == '\r' || c == '\n') kind = Kind::newline;
    kinds[static_cast<std::size_t>(c)] = kind;
  }
  return kinds;
}

constexpr std::array<Kind, 256> kKinds = make_kinds();

/// Beyond ASCII: ranges that are all letters (L) or all neither letters, numbers nor white space,
/// in every version of Unicode. Without U+017F, which is an s where case does not matter.
Kind kind_of_wide(std::uint32_t c) {
  const auto in = [c](std::uint32_t first, std::uint32_t last) { return c >= first && c <= last; };
  if (c == 0x17f) return Kind::unknown;
  if (c == 0xd7 || c == 0xf7) return Kind::other;
  if (in(0xc0, 0x24f)) return Kind::letter;
  if (in(0x2010, 0x2027)) return Kind::other;
  if (in(0x3a3, 0x3ce) || in(0x400, 0x481) || in(0x4e00, 0x9fa5) || in(0x3041, 0x3094) ||
      in(0x30a1, 0x30fa)) {
    return Kind::letter;
  }
  return Kind::unknown;
}

/// A text and the place of a piece's begin.
class Scan {
 public:
  Scan(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  Kind kind(std::size_t i) const {
    if (i >= text_.size()) return Kind::unknown;
    const Kind kind = kKinds[static_cast<unsigned char>(text_[i])];
    return kind == Kind::unknown ? kind_of_wide(code_point_at(text_, i)) : kind;
  }
  char byte(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  std::size_t size() const { return text_.size(); }

  /// The end of the characters of `kind` from `i` on; at_ when it is not known.
  std::size_t end_of(Kind kind, std::size_t i) const {
    for (;;) {
      while (i < text_.size() && kKinds[static_cast<unsigned char>(text_[i])] == kind) ++i;
      if (i >= text_.size() || static_cast<unsigned char>(text_[i]) < 0x80) return i;
      const Kind next = kind_of_wide(code_point_at(text_, i));
      if (next == Kind::unknown) return at_;
      if (next != kind) return i;
      i += utf8_length(text_[i]);
    }
  }

  /// The end of the white space from at_ on; all of what the scanners know is ASCII.
  std::size_t end_of_space() const {
    std::size_t i = at_;
    while (i < text_.size() && is_space(text_[i])) ++i;
    return i;
  }

  /// The end of 's, 't, 're, 've, 'm, 'll or 'd; at_ when there is none.
  std::size_t end_of_contraction(char (*fold)(char)) const {
    const char first = fold(byte(at_ + 1)), second = fold(byte(at_ + 2));
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at_ + 2;
    const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
    return two ? at_ + 3 : at_;
  }

  /// White space that no other alternative takes: all of it at the end of the text, else without
  /// the last character, which goes with the word after it, unless it is the only one.
  std::size_t end_before_word(std::size_t end) const {
    if (end == text_.size()) return end;
    if (kind(end) == Kind::unknown) return at_;  // it may be white space as well
    return end - at_ > 1 ? end - 1 : end;
  }

  static bool is_space(char c) {
    const Kind kind = kKinds[static_cast<unsigned char>(c)];
    return kind == Kind::space || kind == Kind::newline;
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

char as_is(char c) { return c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

template <bool kSingleDigits>
std::size_t scan_gpt2_like(std::string_view text, std::size_t at) {
  const Scan scan(text, at);
  if (text[at] == '\'') {
    if (const std::size_t end = scan.end_of_contraction(as_is); end > at) return end;
  }
  const bool space = text[at] == ' ';
  const std::size_t begin = space ? at + 1 : at;
  const Kind kind = scan.kind(begin);
  if (kind == Kind::letter || kind == Kind::other) return scan.end_of(kind, begin);
  if (kind == Kind::number) {
    if (!kSingleDigits) return scan.end_of(kind, begin);
    return at + 1;  // the digit, or the space before it
  }
  if (!Scan::is_space(text[at])) return at;
  const std::size_t end = scan.end_of_space();
  if (kSingleDigits && end < text.size() && scan.kind(end) == Kind::number) return end;
  return scan.end_before_word(end);
}

template <std::size_t kMaxDigits>
std::size_t scan_tiktoken_like(std::string_view text, std::size_t at) {
  const Scan scan(text, at);
  const Kind kind = scan.kind(at);
  if (kind == Kind::unknown) return at;
  if (kind == Kind::letter) return scan.end_of(kind, at);
  if (kind == Kind::number) {
    std::size_t end = at + 1;
    while (end < at + kMaxDigits && scan.kind(end) == Kind::number) ++end;
    const bool decided = end == at + kMaxDigits || end == text.size();
    return decided || scan.kind(end) != Kind::unknown ? end : at;
  }
  if (text[at] == '\'') {
    if (const std::size_t end = scan.end_of_contraction(lower); end > at) return end;
  }
  const std::size_t after = at + utf8_length(text[at]);
  const Kind next = scan.kind(after);
  if (next == Kind::unknown && after < text.size()) return at;
  if (kind != Kind::newline && next == Kind::letter) return scan.end_of(next, after);
  if (kind == Kind::other || (text[at] == ' ' && next == Kind::other)) {
    std::size_t end = scan.end_of(Kind::other, after);
    while (end > at && end < text.size() && scan.kind(end) == Kind::newline) ++end;
    return end;
  }
  const std::size_t end = scan.end_of_space();
  if (end < text.size() && scan.kind(end) == Kind::unknown) return at;
  for (std::size_t i = end; i > at; --i) {
    if (scan.kind(i - 1) == Kind::newline) return i;  // \s*[\r\n]+
  }
  return scan.end_before_word(end);
}

}  // namespace

std::size_t scan_gpt2(std::string_view text, std::size_t at) {
  return scan_gpt2_like<false>(text, at);
}
std::size_t scan_digits_then_gpt2(std::string_view text, std::size_t at) {
  return scan_gpt2_like<true>(text, at);
}
std::size_t scan_llama3(std::string_view text, std::size_t at) {
  return scan_tiktoken_like<3>(text, at);
}
std::size_t scan_qwen2(std::string_view text, std::size_t at) {
  return scan_tiktoken_like<1>(text, at);
}

}  // namespace dgap::engine
