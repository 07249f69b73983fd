#include "engine/tokenizer/nfc.hpp"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <unordered_set>

#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

std::string nfc(std::string_view text) {
  std::string buffer;
  return std::string(to_nfc(text, buffer));
}

TEST(Nfc, Composes) {
  EXPECT_EQ(nfc("caf\x65\xcc\x81s"), "caf\xc3\xa9s");
  EXPECT_EQ(nfc("\xe2\x84\xab"), "\xc3\x85");                              // the sign of angstrom
  EXPECT_EQ(nfc("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"), "\xea\xb0\x81");  // Hangul
  EXPECT_EQ(nfc("q\xcc\x87\xcc\xa3"), "q\xcc\xa3\xcc\x87");                // marks in order
  EXPECT_EQ(nfc("\xe0\xa4\x95\xe0\xa4\xbc"), "\xe0\xa4\x95\xe0\xa4\xbc");  // never composed
  EXPECT_EQ(nfc("\xcc\x81"), "\xcc\x81");
  EXPECT_EQ(nfc(""), "");
}

TEST(Nfc, TextInTheFormIsNotCopied) {
  const std::string text = "It\xe2\x80\x99s caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x99\x82";
  std::string buffer;
  EXPECT_EQ(to_nfc(text, buffer).data(), text.data());
}

// keeps_nfc is a promise about single characters: they are their own form, no mark, and never the
// second of two that become one.
TEST(Nfc, CharactersThatAreKept) {
  std::unordered_set<utf8proc_int32_t> seconds;
  for (utf8proc_int32_t c = 0; c < 0x110000; ++c) {
    utf8proc_int32_t parts[8];
    int ignored = 0;
    const auto count = utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &ignored);
    for (utf8proc_ssize_t i = 1; i < count; ++i) seconds.insert(parts[i]);
  }
  for (std::uint32_t c = 1; c < 0x110000; ++c) {
    const auto point = static_cast<utf8proc_int32_t>(c);
    if (!keeps_nfc(c)) continue;
    EXPECT_EQ(utf8proc_get_property(point)->combining_class, 0) << c;
    EXPECT_FALSE(seconds.contains(point)) << c;
    std::string text;
    append_utf8(text, c);
    utf8proc_uint8_t* form = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(text, reinterpret_cast<const char*>(form)) << c;
    std::free(form);
  }
}

// A megabyte of marks in the wrong order: sorted, not bubbled.
TEST(Nfc, ManyMarks) {
  std::string text = "a", expected = "a";
  for (int i = 0; i < 200'000; ++i) text += "\xcc\x81\xcc\xa3";
  const std::string form = nfc(text);
  EXPECT_EQ(form.substr(0, 3), "\xe1\xba\xa1");  // a with dot below
  EXPECT_EQ(form.size(), 3u + 199'999 * 2 + 200'000 * 2);
}

}  // namespace
}  // namespace dgap::engine
