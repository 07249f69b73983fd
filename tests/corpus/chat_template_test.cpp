#include "corpus/chat_template.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dgap::corpus {
namespace {

// The expected texts are what transformers' apply_chat_template gives with the models' own
// templates.
TEST(ChatTemplate, MatchesTheModelsOwn) {
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"user", "Hi "}, {"assistant", " Hello."}, {"user", "Bye"}};
  EXPECT_EQ(render_chat("llama3", messages),
            "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>");
  EXPECT_EQ(render_chat("llama2", messages),
            "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]");
  EXPECT_EQ(render_chat("mistral", messages),
            "[INST] Hi [/INST] Hello.</s>[INST] Be brief.\n\nBye[/INST]");
  EXPECT_THROW(render_chat("mistral", {{"assistant", "x"}}), base::UsageError);
  EXPECT_THROW(render_chat("llama2", {{"user", "x"}, {"user", "y"}}), base::UsageError);
  EXPECT_THROW(render_chat("alpaca", messages), base::UsageError);
}

}  // namespace
}  // namespace dgap::corpus
