#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dgap::corpus {

struct ChatMessage {
  std::string role;  // system, user, assistant or tool
  std::string content;
};

/// A conversation as the text that a model of that family reads, without BOS, which the tokenizer
/// adds. `name`: chatml (SmolLM2, Qwen2), llama2, llama3 or mistral. Nothing is put in front that
/// the messages do not hold. UsageError for an unknown name, a role that the template has no place
/// for, or an order that it cannot say.
std::string render_chat(std::string_view name, const std::vector<ChatMessage>& messages);

}  // namespace dgap::corpus
