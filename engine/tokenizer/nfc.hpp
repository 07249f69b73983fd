#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dgap::engine {

/// Unicode normalization form C of `text` (valid UTF-8): `text` itself where it has that form
/// already, else written to `buffer`. O(n log n), whatever the text.
std::string_view to_nfc(std::string_view text, std::string& buffer);

/// Whether normalization keeps this character and never merges it with one before it. Sufficient,
/// not necessary: the ranges that texts mostly consist of, so that the tables are rarely asked.
inline bool keeps_nfc(std::uint32_t c) {
  if (c < 0x300) return true;
  const auto in = [c](std::uint32_t first, std::uint32_t last) { return c >= first && c <= last; };
  return in(0x2010, 0x2027) || in(0x0388, 0x0482) || in(0x3030, 0x3098) || in(0x3400, 0x9fff) ||
         in(0xac00, 0xd7a3) || in(0x1f000, 0x1faff);
}

}  // namespace dgap::engine
