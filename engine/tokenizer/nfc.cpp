#include "engine/tokenizer/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

/// Canonical order: marks after a character by their class. (utf8proc's own loop over them takes
/// quadratic time.)
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto by_class = [](utf8proc_int32_t a, utf8proc_int32_t b) {
    return combining_class(a) < combining_class(b);
  };
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if(begin, characters.end(), is_mark);
    const auto end = std::find_if_not(begin, characters.end(), is_mark);
    std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

void append_nfc(std::string_view part, std::vector<utf8proc_int32_t>& characters,
                std::string& out) {
  constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  characters.clear();
  for (std::size_t at = 0; at < part.size(); at += utf8_length(part[at])) {
    utf8proc_int32_t decomposed[8];
    int ignored = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code_point_at(part, at)), decomposed, 8, kForm, &ignored);
    characters.insert(characters.end(), decomposed, decomposed + std::clamp<long>(count, 0, 8));
  }
  order_marks(characters);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), kForm);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<std::uint32_t>(characters[static_cast<std::size_t>(i)]));
  }
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  std::vector<utf8proc_int32_t> characters;
  std::size_t copied = 0, last = 0;  // last: begin of the character before `at`
  buffer.clear();
  for (std::size_t at = 0; at < text.size();) {
    if (keeps_nfc(code_point_at(text, at))) {
      last = at;
      at += utf8_length(text[at]);
      continue;
    }
    const std::size_t begin = last;  // what follows may merge with it
    while (at < text.size() && !keeps_nfc(code_point_at(text, at))) at += utf8_length(text[at]);
    buffer += text.substr(copied, begin - copied);
    append_nfc(text.substr(begin, at - begin), characters, buffer);
    copied = last = at;
  }
  if (copied == 0) return text;
  buffer += text.substr(copied);
  return buffer;
}

}  // namespace dgap::engine
