#include "engine/tokenizer/pretokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace dgap::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> pieces(const std::vector<SplitStep>& steps, std::string_view text) {
  const PreTokenizer pretokenizer(steps);
  PieceCursor cursor(pretokenizer);
  cursor.start(text);
  std::vector<std::string> out;
  for (std::string_view piece = cursor.next(); !piece.empty(); piece = cursor.next()) {
    out.emplace_back(piece);
  }
  return out;
}

std::vector<std::string> pieces(std::string_view tag, std::string_view text) {
  return pieces(split_of_tag(tag).steps, text);
}

// One tag per pattern.
constexpr std::string_view kTags[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};

// Expected pieces are those of Hugging Face's tokenizers 0.23 (see conformance_pretokenizer.py).
TEST(PreTokenizer, Gpt2) {
  EXPECT_THAT(pieces("gpt-2", "Hello world, it's 2024!  Yes"),
              ElementsAre("Hello", " world", ",", " it", "'s", " 2024", "!", " ", " Yes"));
  EXPECT_THAT(pieces("gpt-2", "a\n\n  b \n"), ElementsAre("a", "\n\n ", " b", " \n"));
  EXPECT_THAT(pieces("gpt-2", "I'LL we'll"), ElementsAre("I", "'", "LL", " we", "'ll"));
}

TEST(PreTokenizer, DigitsStandAlone) {
  EXPECT_THAT(pieces("smollm", "x=12345"), ElementsAre("x", "=", "1", "2", "3", "4", "5"));
  // The space before a digit belongs to the stretch before it, and stays whole.
  EXPECT_THAT(pieces("smollm", "in 1984,  7 a"),
              ElementsAre("in", " ", "1", "9", "8", "4", ",", "  ", "7", " a"));
  EXPECT_THAT(pieces("smollm", "ied 4 \xc2\xbd months"),
              ElementsAre("ied", " ", "4", " ", "\xc2\xbd", " months"));
  EXPECT_THAT(pieces("smollm", "\n\n3"), ElementsAre("\n\n", "3"));
  EXPECT_EQ(pieces("starcoder", "a 1 b"), pieces("smollm", "a 1 b"));
}

TEST(PreTokenizer, Llama3AndQwen2) {
  EXPECT_THAT(pieces("llama-bpe", "x=12345"), ElementsAre("x", "=", "123", "45"));
  EXPECT_THAT(pieces("qwen2", "x=12345"), ElementsAre("x", "=", "1", "2", "3", "4", "5"));
  EXPECT_THAT(pieces("qwen2", "a->b I'LL .\n\n x"),
              ElementsAre("a", "->", "b", " I", "'LL", " .\n\n", " x"));
  EXPECT_THAT(pieces("llama3", "(tab)\t end \r\n"),
              ElementsAre("(tab", ")", "\t", " end", " \r\n"));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  // U+180E is no white space; U+0085 and U+3000 are.
  EXPECT_THAT(pieces("gpt-2",
                     "a\xe1\xa0\x8e"
                     "b"),
              ElementsAre("a", "\xe1\xa0\x8e", "b"));
  EXPECT_THAT(pieces("gpt-2", "a\xc2\x85\xe3\x80\x80"), ElementsAre("a", "\xc2\x85\xe3\x80\x80"));
}

TEST(PreTokenizer, UnknownTagIsAnError) {
  for (const char* tag : {"default", "", "llama-bpe2"}) {
    try {
      split_of_tag(tag);
      ADD_FAILURE() << tag;
    } catch (const base::UsageError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("'" + std::string(tag) + "' is unknown; known are gpt-2, smollm"));
    }
  }
}

// Unbroken runs must neither exhaust the matcher's stack nor lose bytes.
TEST(PreTokenizer, LongRuns) {
  for (const std::string_view tag : kTags) {
    for (const std::string_view unit :
         {"a", " ", "\n", "!", "1", " \n", "\xc3\xa9", "\xe4\xb8\xad", "'", "\t!", "\xcc\x81"}) {
      std::string text;
      while (text.size() < (1u << 20)) text += unit;
      std::size_t size = 0, count = 0;
      for (const std::string& piece : pieces(tag, text)) size += piece.size(), ++count;
      EXPECT_EQ(size, text.size()) << tag << " " << unit;
      EXPECT_GE(count, 1u);
    }
  }
}

TEST(PreTokenizer, CursorCanStartAgain) {
  const PreTokenizer pretokenizer(split_of_tag("gpt-2").steps);
  PieceCursor cursor(pretokenizer);
  cursor.start("one two");
  EXPECT_EQ(cursor.next(), "one");
  cursor.start("three");
  EXPECT_EQ(cursor.next(), "three");
  EXPECT_EQ(cursor.next(), "");
  EXPECT_EQ(cursor.next(), "");
}

}  // namespace
}  // namespace dgap::engine
