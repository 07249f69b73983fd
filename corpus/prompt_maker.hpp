#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "corpus/haystack.hpp"
#include "corpus/vocabulary.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::corpus {

/// A question about something hidden in a text, as the model reads it, up to the answer.
struct Prompt {
  Kind kind = Kind::passkey;
  std::string text;                  // of prompt and answer
  std::vector<std::int32_t> prompt;  // BOS where the model wants one, and all before the answer
  std::vector<std::int32_t> answer;  // a space that stands alone before it belongs to the prompt
};

/// Tokens of a prompt: uniform between half and all of `most`.
std::int64_t random_length(std::int64_t most, base::Random& random);

/// Makes prompts from one half of the vocabulary.
class PromptMaker {
 public:
  /// `chat_template`: of render_chat; plain text where the tokenizer lacks its special tokens. The
  /// arguments must outlive the maker.
  PromptMaker(const Vocabulary& vocabulary, const engine::Tokenizer& tokenizer,
              std::string chat_template);

  /// At most `tokens` of prompt and answer, as near as whole sentences come, from a place of the
  /// haystack that `random` chooses. FailedError where not even the question fits.
  Prompt make(Kind kind, const Haystack& haystack, std::int64_t tokens, base::Random& random) const;

 private:
  struct Draw;
  Draw draw(Kind kind, base::Random& random) const;
  std::string value_of(const Value& value, base::Random& random) const;
  std::vector<std::string> body_of(const Draw& draw, const Haystack& haystack, std::int64_t tokens,
                                   base::Random& random) const;
  std::string render(const Draw& draw, const std::vector<std::string>& body) const;
  Prompt encode(const Draw& draw, std::string prompt) const;

  const Vocabulary& vocabulary_;
  const engine::Tokenizer& tokenizer_;
  std::string chat_template_;
  bool chat_;
};

}  // namespace dgap::corpus
