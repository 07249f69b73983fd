#include "engine/tokenizer/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

/// Unicode's White_Space.
bool is_space(std::uint32_t c) {
  if ((c >= 0x09 && c <= 0x0d) || c == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

/// \w of Unicode's regular expressions (UTS 18): alphabetic characters, marks, decimal digits,
/// connectors and joiners.
bool is_word(std::uint32_t c) {
  const auto in = [c](std::uint32_t first, std::uint32_t last) { return c >= first && c <= last; };
  if (in(0x200c, 0x200d) || in(0x24b6, 0x24e9) || in(0x1f130, 0x1f149) || in(0x1f150, 0x1f169) ||
      in(0x1f170, 0x1f189)) {
    return true;
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::size_t bytes = 0;
  for (const AddedToken& token : tokens_) bytes += token.text.size();
  children_.reserve(bytes);
  token_of_node_.assign(1, -1);
  const auto any = [](std::uint32_t) { return true; };
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    all_special_ = all_special_ && token.special;
    begins_[static_cast<unsigned char>(token.text[0])] = true;
    std::uint32_t node = 0;
    for (const char c : token.text) {
      const std::uint64_t key = std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
      if (const std::uint32_t* child = children_.find(key, any)) {
        node = *child;
      } else {
        node = static_cast<std::uint32_t>(token_of_node_.size());
        children_.insert(key, node);
        token_of_node_.push_back(-1);
      }
    }
    token_of_node_[node] = static_cast<std::int32_t>(i);
  }
}

bool AddedTokenFinder::find(std::string_view text, std::size_t from, bool parse_special,
                            Match& match) const {
  if (tokens_.empty() || (all_special_ && !parse_special)) return false;
  const auto any = [](std::uint32_t) { return true; };
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    match.token = nullptr;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const std::uint32_t* child =
          children_.find(std::uint64_t{node} << 8 | static_cast<unsigned char>(text[at]), any);
      if (child == nullptr) break;
      node = *child;
      if (token_of_node_[node] < 0) continue;
      match = {&tokens_[static_cast<std::size_t>(token_of_node_[node])], begin, at + 1, at + 1};
    }
    if (match.token != nullptr) return true;
  }
  return false;
}

bool AddedTokenFinder::is_wanted(std::string_view text, bool parse_special, const Match& match) {
  if (match.token->special && !parse_special) return false;
  if (!match.token->single_word) return true;
  const bool after_word =
      match.begin > 0 && is_word(code_point_at(text, previous_character(text, match.begin)));
  return !after_word && (match.end == text.size() || !is_word(code_point_at(text, match.end)));
}

void AddedTokenFinder::widen(std::string_view text, std::size_t done, Match& match) {
  while (match.token->lstrip && match.begin > done) {
    const std::size_t previous = previous_character(text, match.begin);
    if (!is_space(code_point_at(text, previous))) break;
    match.begin = previous;
  }
  match.begin = std::max(match.begin, done);
  while (match.token->rstrip && match.end < text.size() &&
         is_space(code_point_at(text, match.end))) {
    match.end += utf8_length(text[match.end]);
  }
}

}  // namespace dgap::engine
