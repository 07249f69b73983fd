#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/flat_table.hpp"

namespace dgap::engine {

/// A token that is found in text before anything else happens to it (added token of Hugging Face's
/// tokenizers; control or user-defined symbol of SentencePiece).
struct AddedToken {
  std::string text;  // not empty
  std::int32_t id = 0;
  bool special = false;      // found only where special tokens are parsed
  bool normalized = false;   // looked for in normalised text (`text` is normalised too), else raw
  bool single_word = false;  // not next to a word character
  bool lstrip = false, rstrip = false;  // takes the white space before, after it
};

/// Finds added tokens of one kind (normalized or not) as Hugging Face's tokenizers do: leftmost,
/// longest, and a token that is found but not wanted hides those inside it. Immutable.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  /// Calls plain(begin, end) for the stretches between tokens, which are not empty, and token(id)
  /// for the tokens, in order.
  template <class Plain, class Token>
  void walk(std::string_view text, bool parse_special, const Plain& plain,
            const Token& token) const {
    std::size_t done = 0;
    Match match;
    for (std::size_t from = 0; find(text, from, parse_special, match); from = match.next) {
      if (!is_wanted(text, parse_special, match)) continue;
      widen(text, done, match);
      if (done < match.begin) plain(done, match.begin);
      token(match.token->id);
      done = match.end;
    }
    if (done < text.size()) plain(done, text.size());
  }

 private:
  struct Match {
    const AddedToken* token = nullptr;
    std::size_t begin = 0, end = 0;
    std::size_t next = 0;  // where the search goes on
  };

  bool find(std::string_view text, std::size_t from, bool parse_special, Match& match) const;
  static bool is_wanted(std::string_view text, bool parse_special, const Match& match);
  static void widen(std::string_view text, std::size_t done, Match& match);

  std::vector<AddedToken> tokens_;
  bool all_special_ = true;
  std::array<bool, 256> begins_{};           // a token begins with this byte
  FlatTable<std::uint32_t> children_;        // trie: node * 256 + byte
  std::vector<std::int32_t> token_of_node_;  // index into tokens_; -1 for none
};

}  // namespace dgap::engine
