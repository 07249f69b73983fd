#include "corpus/haystack.hpp"

namespace dgap::corpus {
namespace {

constexpr std::size_t kShortest = 21, kLongest = 299;  // bytes

bool ends_sentence(std::string_view text, std::size_t i) {
  const bool mark = text[i] == '.' || text[i] == '!' || text[i] == '?';
  return mark && i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\n');
}

}  // namespace

Haystack haystack_of(std::string_view text, const engine::Tokenizer& tokenizer) {
  Haystack haystack;
  std::string sentence;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
    if (c != ' ' || (!sentence.empty() && sentence.back() != ' ')) sentence += c;
    if (!ends_sentence(text, i)) continue;
    if (sentence.size() >= kShortest && sentence.size() <= kLongest) {
      haystack.tokens.push_back(std::ssize(tokenizer.encode(" " + sentence)));
      haystack.sentences.push_back(std::move(sentence));
    }
    sentence.clear();
  }
  return haystack;
}

}  // namespace dgap::corpus
