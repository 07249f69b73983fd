#include "evaluator/retrieval.hpp"

#include <gmock/gmock.h>

#include <set>

#include "base/error.hpp"
#include "tests/corpus/byte_tokenizer.hpp"

namespace dgap::evaluator {
namespace {

using testing::ByteTokenizer;
using ::testing::HasSubstr;

schemas::TracePart text_of(const std::string& text) {
  schemas::TracePart part;
  part.tokens = ByteTokenizer().encode(text, false);
  schemas::TraceUnit unit;
  unit.context = static_cast<std::int32_t>(text.size()) - 8;
  unit.steps = 8;
  part.units = {unit};
  return part;
}

std::string prose() {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "It was a long sentence number " + std::to_string(i) + " of the book. ";
  return text;
}

std::vector<corpus::Prompt> cases_of(const schemas::RetrievalTasksConfig& config,
                                     std::uint64_t seed) {
  return retrieval_cases(text_of(prose()), ByteTokenizer(), config, "chatml", seed);
}

TEST(RetrievalCases, HideThePassKeyInsideAndAskForItAtTheEnd) {
  const ByteTokenizer tokenizer;
  const auto cases = cases_of({8, 900, {"passkey"}}, 5);
  ASSERT_EQ(cases.size(), 8u);
  for (const corpus::Prompt& one : cases) {
    const std::string prompt = tokenizer.decode(one.prompt), answer = tokenizer.decode(one.answer);
    ASSERT_EQ(answer.size(), 5u);
    EXPECT_THAT(prompt, HasSubstr("The pass key is " + answer + ". Remember it."));
    EXPECT_TRUE(prompt.ends_with("The pass key is "));
    EXPECT_THAT(prompt, ::testing::Not(HasSubstr("<|im_start|>")));  // not in this vocabulary
    EXPECT_LE(one.prompt.size() + one.answer.size(), 900u);
  }
  EXPECT_NE(cases[0].prompt, cases[1].prompt);
}

TEST(RetrievalCases, AreOfTheTasksThatWereAskedFor) {
  const auto cases = cases_of({2, 1500, schemas::all_retrieval_kinds()}, 5);
  ASSERT_EQ(cases.size(), 2 * schemas::kRetrievalKinds.size());
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(corpus::name_of(cases[i].kind), schemas::kRetrievalKinds[i / 2]);
}

TEST(RetrievalCases, DependOnTheSeedAlone) {
  const auto a = cases_of({3, 700, {"passkey"}}, 5), b = cases_of({3, 700, {"passkey"}}, 5);
  const auto c = cases_of({3, 700, {"passkey"}}, 6);
  EXPECT_EQ(a[2].prompt, b[2].prompt);
  EXPECT_NE(a[2].answer, c[2].answer);
}

TEST(RetrievalCases, NeedText) {
  EXPECT_THROW(retrieval_cases({}, ByteTokenizer(), {}, "chatml", 1), base::FailedError);
}

}  // namespace
}  // namespace dgap::evaluator
