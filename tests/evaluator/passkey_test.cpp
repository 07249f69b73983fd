#include "evaluator/passkey.hpp"

#include <gtest/gtest.h>

namespace dgap::evaluator {
namespace {

/// One token per byte, no special tokens.
class ByteTokenizer : public engine::Tokenizer {
 public:
  std::int64_t vocab_size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text, bool) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::int32_t bos() const override { return -1; }
  std::int32_t eos() const override { return -1; }
  std::string sha256() const override { return "bytes"; }
};

schemas::TracePart text_of(const std::string& text) {
  schemas::TracePart part;
  const ByteTokenizer tokenizer;
  part.tokens = tokenizer.encode(text, false);
  schemas::TraceUnit unit;
  unit.context = static_cast<std::int32_t>(text.size()) - 8;
  unit.steps = 8;
  part.units = {unit};
  return part;
}

std::string prose() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "It was a long sentence number " + std::to_string(i) + " of the book. ";
  return text;
}

TEST(PasskeyCases, HideTheKeyInsideAndAskForItAtTheEnd) {
  const ByteTokenizer tokenizer;
  const auto cases = passkey_cases(text_of(prose()), tokenizer, {8, 900}, 5);
  ASSERT_EQ(cases.size(), 8u);
  for (const PasskeyCase& one : cases) {
    const std::string prompt = tokenizer.decode(one.prompt), answer = tokenizer.decode(one.answer);
    ASSERT_EQ(answer.size(), 6u);
    EXPECT_NE(prompt.find("The pass key is" + answer + ". Remember it."), std::string::npos);
    EXPECT_TRUE(prompt.ends_with("The pass key is"));
    EXPECT_EQ(prompt.find("<|im_start|>"), std::string::npos);  // not in this vocabulary
    EXPECT_LE(one.prompt.size(), 1100u);
  }
  EXPECT_NE(cases[0].prompt, cases[1].prompt);
}

TEST(PasskeyCases, DependOnTheSeedAlone) {
  const ByteTokenizer tokenizer;
  const auto a = passkey_cases(text_of(prose()), tokenizer, {3, 700}, 5);
  const auto b = passkey_cases(text_of(prose()), tokenizer, {3, 700}, 5);
  const auto c = passkey_cases(text_of(prose()), tokenizer, {3, 700}, 6);
  EXPECT_EQ(a[2].prompt, b[2].prompt);
  EXPECT_NE(a[2].answer, c[2].answer);
}

}  // namespace
}  // namespace dgap::evaluator
