#include "corpus/chat_template.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dgap::corpus {
namespace {

using Messages = std::vector<ChatMessage>;

std::string chatml(const Messages& messages) {
  std::string text;
  for (const ChatMessage& m : messages) {
    text += "<|im_start|>" + m.role + "\n" + m.content + "<|im_end|>\n";
  }
  return text;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string llama3(const Messages& messages) {
  std::string text;
  for (const ChatMessage& m : messages) {
    const std::string role = m.role == "tool" ? "ipython" : m.role;
    text +=
        "<|start_header_id|>" + role + "<|end_header_id|>\n\n" + trimmed(m.content) + "<|eot_id|>";
  }
  return text;
}

/// Turns of user and assistant that alternate, and the text of a system message before them.
struct Turns {
  std::string system;
  Messages turns;
};
Turns alternating(std::string_view name, const Messages& messages) {
  Turns result;
  auto from = messages.begin();
  if (from != messages.end() && from->role == "system") result.system = (from++)->content;
  result.turns.assign(from, messages.end());
  for (std::size_t i = 0; i < result.turns.size(); ++i) {
    const char* expected = i % 2 == 0 ? "user" : "assistant";
    if (result.turns[i].role == expected) continue;
    throw base::UsageError(
        std::string(name) + " needs turns of user and assistant that alternate: turn " +
        std::to_string(i + 1) + " is of \"" + result.turns[i].role + "\", expected " + expected);
  }
  return result;
}

/// Every later turn of the user begins with BOS again, as it was trained.
std::string llama2(const Messages& messages) {
  const auto [system, turns] = alternating("llama2", messages);
  std::string text;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i % 2 == 1) {
      text += " " + trimmed(turns[i].content) + " </s>";
      continue;
    }
    const bool with_system = i == 0 && !system.empty();
    const std::string content =
        (with_system ? "<<SYS>>\n" + system + "\n<</SYS>>\n\n" : "") + turns[i].content;
    text += (i == 0 ? "[INST] " : "<s>[INST] ") + trimmed(content) + " [/INST]";
  }
  return text;
}

/// Mistral v3: the system text goes with the last turn of the user.
std::string mistral(const Messages& messages) {
  const auto [system, turns] = alternating("mistral", messages);
  std::size_t last_user = 0;
  for (std::size_t i = 0; i < turns.size(); i += 2) last_user = i;
  std::string text;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i % 2 == 1) {
      text += " " + trimmed(turns[i].content) + "</s>";
      continue;
    }
    const bool with_system = i == last_user && !system.empty();
    text += "[INST] " + (with_system ? system + "\n\n" : "") + turns[i].content + "[/INST]";
  }
  return text;
}

struct Template {
  std::string_view name;
  std::string (*render)(const Messages&);
};
constexpr std::array<Template, 4> kTemplates{
    {{"chatml", chatml}, {"llama2", llama2}, {"llama3", llama3}, {"mistral", mistral}}};
constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};

}  // namespace

std::string render_chat(std::string_view name, const Messages& messages) {
  for (const ChatMessage& m : messages) {
    if (std::find(kRoles.begin(), kRoles.end(), m.role) == kRoles.end()) {
      throw base::UsageError("role \"" + m.role +
                             "\" is not one of system, user, assistant and tool");
    }
  }
  for (const Template& known : kTemplates) {
    if (known.name == name) return known.render(messages);
  }
  throw base::UsageError("corpus.chat_template: \"" + std::string(name) +
                         "\" is not one of chatml, llama2, llama3 and mistral");
}

}  // namespace dgap::corpus
