#include "base/text.hpp"

#include <gtest/gtest.h>

#include <array>

namespace dgap::base {
namespace {

using namespace std::string_view_literals;

TEST(Text, NearestFindsTyposAndRejectsStrangers) {
  constexpr std::array words = {"window"sv, "threshold"sv, "training"sv};
  EXPECT_EQ(nearest("windw", words), "window");
  EXPECT_EQ(nearest("widnow", words), "window");  // one swap
  EXPECT_EQ(nearest("treshold", words), "threshold");
  EXPECT_EQ(nearest("zebra", words), "");
}

TEST(Text, Joins) {
  constexpr std::array words = {"a"sv, "b"sv, "c"sv};
  EXPECT_EQ(join(words), "a, b and c");
  EXPECT_EQ(join(std::span(words).first(1)), "a");
}

TEST(Text, Utf8) {
  EXPECT_EQ(valid_utf8_prefix("h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x99\x82"), 15u);
  EXPECT_EQ(valid_utf8_prefix("ab\xa3"), 2u);                // a Latin-1 byte
  EXPECT_EQ(valid_utf8_prefix("\xc0\x80"), 0u);              // overlong
  EXPECT_EQ(valid_utf8_prefix("a\xed\xa0\x80"), 1u);         // surrogate
  EXPECT_EQ(valid_utf8_prefix("a\xf4\x90\x80\x80"), 1u);     // beyond U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("ab\xe2\x82"), 2u);            // cut short
}

TEST(Text, NumbersReadBack) {
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(0.1f), "0.1");
  EXPECT_EQ(std::stod(number(1.0 / 3)), 1.0 / 3);
}

}  // namespace
}  // namespace dgap::base
