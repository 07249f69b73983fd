#include "corpus/prompt_maker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "tests/corpus/byte_tokenizer.hpp"

namespace dgap::corpus {
namespace {

using testing::ByteTokenizer;

std::string prose(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += "It was a long sentence, the " + std::string(static_cast<std::size_t>(i % 40), 'x') +
            "th of the book. ";
  return text;
}

class Prompts : public ::testing::Test {
 protected:
  Prompt make(Kind kind, std::int64_t tokens, std::uint64_t seed,
              const Vocabulary& vocabulary = calibration_vocabulary()) const {
    base::Random random(seed, "prompts");
    return PromptMaker(vocabulary, tokenizer_, "chatml").make(kind, haystack_, tokens, random);
  }
  std::string answer(const Prompt& one) const { return tokenizer_.decode(one.answer); }

  ByteTokenizer tokenizer_;
  Haystack haystack_ = haystack_of(prose(200), tokenizer_);
};

TEST_F(Prompts, AnswersAreInTheTextButForTheControl) {
  for (const Vocabulary* vocabulary : {&calibration_vocabulary(), &evaluation_vocabulary()}) {
    for (std::size_t k = 0; k < kKindNames.size(); ++k) {
      const Kind kind = static_cast<Kind>(k);
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Prompt one = make(kind, 3000, seed, *vocabulary);
        const std::string prompt = tokenizer_.decode(one.prompt);
        EXPECT_EQ(one.kind, kind);
        EXPECT_EQ(one.text, prompt + answer(one));
        EXPECT_NE(answer(one).front(), ' ');
        const std::string first = answer(one).substr(0, answer(one).find(' '));
        if (kind == Kind::count) {
          const int start = std::stoi(answer(one));
          EXPECT_TRUE(
              prompt.ends_with(std::to_string(start - 2) + ", " + std::to_string(start - 1) + ", "))
              << one.text;
        } else {
          EXPECT_NE(prompt.find(first.substr(0, first.find(','))), prompt.npos) << one.text;
        }
        EXPECT_EQ(prompt.find('{'), prompt.npos) << prompt;
        EXPECT_GT(std::ssize(one.prompt) + std::ssize(one.answer), 3000 - 200);
        EXPECT_LE(std::ssize(one.prompt) + std::ssize(one.answer), 3000);
      }
    }
  }
}

TEST_F(Prompts, AskForOneOfSeveralKeysAndForAllValuesOfOne) {
  std::set<std::size_t> places;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Prompt many = make(Kind::multi_key, 3000, seed, evaluation_vocabulary());
    const std::string text = tokenizer_.decode(many.prompt);
    std::size_t needles = 0, place = 0;
    for (std::size_t at = text.find("One of the special"); at != text.npos;
         at = text.find("One of the special", at + 1)) {
      const std::string needle = text.substr(at, text.find('.', at) - at);
      if (needle.find(answer(many)) != needle.npos) place = needles;
      ++needles;
    }
    EXPECT_EQ(needles, 4u);
    places.insert(place);
    const std::string all = answer(make(Kind::multi_value, 3000, seed, evaluation_vocabulary()));
    EXPECT_EQ(std::count(all.begin(), all.end(), ','), 2) << all;
  }
  EXPECT_EQ(places.size(), 4u);
}

TEST_F(Prompts, DenseOnesAreFullOfNumbers) {
  const auto digits = [&](Kind kind) {
    const std::string text = tokenizer_.decode(make(kind, 6000, 3, evaluation_vocabulary()).prompt);
    return std::count_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  EXPECT_GT(digits(Kind::dense), digits(Kind::single_key) + 50);
}

TEST_F(Prompts, DependOnTheSeedAlone) {
  for (const Kind kind : {Kind::multi_key, Kind::phrase, Kind::dense}) {
    EXPECT_EQ(make(kind, 2000, 1).text, make(kind, 2000, 1).text);
    EXPECT_NE(make(kind, 2000, 1).text, make(kind, 2000, 2).text);
  }
}

TEST_F(Prompts, SpeakTheTemplateWhereTheVocabularyHasIt) {
  EXPECT_EQ(make(Kind::passkey, 900, 1).text.find("<|im_start|>"), std::string::npos);
  const ByteTokenizer chat(true, 257);
  base::Random random(1, "prompts");
  const Prompt one = PromptMaker(evaluation_vocabulary(), chat, "chatml")
                         .make(Kind::passkey, haystack_, 900, random);
  EXPECT_EQ(one.prompt[0], 257);
  EXPECT_EQ(one.prompt[1], 256);
  EXPECT_TRUE(one.text.starts_with("<|im_start|>system\n"));
  EXPECT_NE(one.text.find("<|im_end|>\n<|im_start|>assistant\nThe pass key is "),
            std::string::npos);
  EXPECT_LE(std::ssize(one.prompt) + std::ssize(one.answer), 900);
}

TEST_F(Prompts, SayWhenThereIsNoRoom) {
  EXPECT_THROW(make(Kind::multi_key, 100, 1), base::FailedError);
  const Prompt bare = make(Kind::passkey, 200, 1, evaluation_vocabulary());  // without any text
  EXPECT_EQ(bare.text.find("It was a long"), bare.text.npos);
}

TEST(Haystacks, HoldWholeSentences) {
  const ByteTokenizer tokenizer;
  const Haystack haystack = haystack_of(
      "Short. This one is long enough\nto be  kept! And so is this one, I think? cut", tokenizer);
  ASSERT_EQ(haystack.sentences.size(), 2u);
  EXPECT_EQ(haystack.sentences[0], "This one is long enough to be kept!");
  EXPECT_EQ(haystack.sentences[1], "And so is this one, I think?");
  EXPECT_EQ(haystack.tokens[0], std::ssize(haystack.sentences[0]) + 1);
}

}  // namespace
}  // namespace dgap::corpus
