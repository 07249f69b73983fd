#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"
#include "evaluator/passkey.hpp"

namespace dgap::evaluator {
namespace {

constexpr int kDigits = 5;
constexpr std::int64_t kReserved = 160;  // tokens of the template, the needle and the question, about

/// Sentences of a text, split after . ! ? and a space, of a length that reads as prose.
std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> list;
  std::string sentence;
  for (std::size_t i = 0; i < text.size(); ++i) {
    sentence += text[i] == '\n' ? ' ' : text[i];
    const bool ends = text[i] == '.' || text[i] == '!' || text[i] == '?';
    if (ends && i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\n')) {
      const auto first = sentence.find_first_not_of(' ');
      if (first != std::string::npos && sentence.size() - first > 20 && sentence.size() - first < 300) {
        list.push_back(sentence.substr(first));
      }
      sentence.clear();
    }
  }
  return list;
}

/// The text around the haystack: ChatML where the vocabulary has it, plain text otherwise.
struct Frame {
  std::string before, after;
};
Frame frame(const engine::Tokenizer& tokenizer) {
  const std::string ask =
      "There is important info hidden inside a lot of irrelevant text. Find it and memorize it.\n\n";
  const std::string question = "\n\nWhat is the pass key?";
  const std::string reply = "The pass key is";
  const bool chat_ml = tokenizer.encode("<|im_start|>", true).size() == 1 &&
                       tokenizer.encode("<|im_end|>", true).size() == 1;
  if (!chat_ml) return {ask, question + "\n" + reply};
  return {"<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n<|im_start|>user\n" + ask,
          question + "<|im_end|>\n<|im_start|>assistant\n" + reply};
}

std::string unit_text(const schemas::TracePart& text, const schemas::TraceUnit& unit,
                      const engine::Tokenizer& tokenizer) {
  const auto first = text.tokens.begin() + unit.first_token;
  std::vector<std::int32_t> ids(first, first + unit.context + unit.steps);
  if (tokenizer.bos() >= 0 && !ids.empty() && ids.front() == tokenizer.bos()) ids.erase(ids.begin());
  return tokenizer.decode(ids);
}

std::string random_key(base::Random& random) {
  std::string key;
  for (int i = 0; i < kDigits; ++i) key += static_cast<char>('1' + random.below(9));
  return key;
}

}  // namespace

std::vector<PasskeyCase> passkey_cases(const schemas::TracePart& text, const engine::Tokenizer& tokenizer,
                                       const schemas::PasskeyConfig& config, std::uint64_t seed) {
  if (text.units.empty()) throw base::FailedError("passkey: the held-out traces hold no text");
  base::Random random(seed, "passkey");
  const Frame around = frame(tokenizer);
  std::vector<PasskeyCase> cases;
  for (int i = 0; i < config.cases; ++i) {
    const std::string key = random_key(random);
    const auto unit = random.below(text.units.size());
    const std::vector<std::string> prose = sentences(unit_text(text, text.units[unit], tokenizer));
    std::vector<std::string> haystack;
    std::int64_t tokens = 0;
    for (const std::string& sentence : prose) {
      const auto length = static_cast<std::int64_t>(tokenizer.encode(" " + sentence).size());
      if (tokens + length > config.context - kReserved) break;
      haystack.push_back(sentence);
      tokens += length;
    }
    const auto place = static_cast<std::ptrdiff_t>(random.below(haystack.size() + 1));
    haystack.insert(haystack.begin() + place,
                    "The pass key is " + key + ". Remember it. " + key + " is the pass key.");
    std::string prompt = around.before;
    for (std::size_t s = 0; s < haystack.size(); ++s) prompt += (s > 0 ? " " : "") + haystack[s];
    prompt += around.after;
    PasskeyCase one{tokenizer.encode(prompt, true), tokenizer.encode(" " + key)};
    if (tokenizer.bos() >= 0) one.prompt.insert(one.prompt.begin(), tokenizer.bos());
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace dgap::evaluator
