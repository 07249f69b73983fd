#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pretokenizer.hpp"

#include <pcre2.h>

#include <array>
#include <new>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
namespace {

/// White space as in Unicode's White_Space, for use inside a class. The engines that these patterns
/// were written for mean this by \s; PCRE2's own \s has U+180E as well.
#define DGAP_SPACE R"(\t-\r\x{85}\p{Z})"

/// GPT-2: contractions; letters, numbers or others, each with at most one space in front; white
/// space without the last character before a word.
constexpr const char* kGpt2 =
    R"('(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^)" DGAP_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" DGAP_SPACE R"(]+(?![^)" DGAP_SPACE R"(])|[)" DGAP_SPACE R"(]+)";

/// Every number character alone, then GPT-2's pattern inside what lies between them. In one pass
/// that is: numbers are pieces of their own, never after a space, and the white space before one is
/// at the end of its stretch, so that it stays whole.
constexpr const char* kDigitsThenGpt2 =
    R"(\p{N}|'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?[^)" DGAP_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" DGAP_SPACE R"(]+(?![^)" DGAP_SPACE R"(\p{N}])|[)" DGAP_SPACE R"(]+)";

/// Llama 3 and Qwen2 differ in how many number characters make a piece.
#define DGAP_TIKTOKEN_PATTERN(numbers)                                                      \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" numbers R"(| ?[^)" DGAP_SPACE \
  R"(\p{L}\p{N}]+[\r\n]*|[)" DGAP_SPACE R"(]*[\r\n]+)"                                      \
  R"(|[)" DGAP_SPACE R"(]+(?![^)" DGAP_SPACE R"(])|[)" DGAP_SPACE R"(]+)"

constexpr const char* kLlama3 = DGAP_TIKTOKEN_PATTERN(R"(\p{N}{1,3})");
constexpr const char* kQwen2 = DGAP_TIKTOKEN_PATTERN(R"(\p{N})");

struct Pattern {
  std::string_view tag;
  const char* expression;
  bool whole_pieces_first, adds_bos;
};

constexpr std::array<Pattern, 7> kPatterns{{
    {"gpt-2", kGpt2, false, false},
    {"smollm", kDigitsThenGpt2, false, false},
    {"starcoder", kDigitsThenGpt2, false, false},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"qwen2", kQwen2, false, false},
}};

const Pattern& find_pattern(std::string_view tag) {
  std::vector<std::string_view> tags;
  for (const Pattern& pattern : kPatterns) {
    if (pattern.tag == tag) return pattern;
    tags.push_back(pattern.tag);
  }
  throw base::UsageError("the pre-tokenizer tag '" + std::string(tag) + "' is unknown; known are " +
                         base::join(tags));
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

void PreTokenizer::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

PreTokenizer::PreTokenizer(std::string_view tag) {
  const Pattern& pattern = find_pattern(tag);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.expression), PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr));
  if (!code_) {
    throw base::UnavailableError("the installed PCRE2 cannot compile the pre-tokenizer pattern '" +
                                 std::string(tag) + "': " + error_text(error));
  }
  // Where PCRE2 was built without JIT the interpreter gives the same pieces, more slowly.
  (void)pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  whole_pieces_first_ = pattern.whole_pieces_first;
  adds_bos_ = pattern.adds_bos;
}

void PieceCursor::Free::operator()(pcre2_real_match_data_8* data) const {
  pcre2_match_data_free(data);
}

PieceCursor::PieceCursor(const PreTokenizer& pretokenizer)
    : code_(pretokenizer.code_.get()), match_(pcre2_match_data_create(1, nullptr)) {
  if (!match_) throw std::bad_alloc();
}

void PieceCursor::start(std::string_view text) {
  text_ = text;
  at_ = match_begin_ = match_end_ = 0;
}

std::string_view PieceCursor::next() {
  if (at_ == text_.size()) return {};
  if (at_ == match_end_) {
    const int rc = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                               PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
      throw base::FailedError("splitting the text failed at byte " + std::to_string(at_) + ": " +
                              error_text(rc));
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match_.get());
    match_begin_ = rc < 0 ? text_.size() : found[0];
    match_end_ = rc < 0 ? text_.size() : found[1];
  }
  // Text that the pattern skips is a piece as well.
  const std::size_t end = at_ < match_begin_ ? match_begin_ : match_end_;
  const std::string_view piece = text_.substr(at_, end - at_);
  at_ = end;
  return piece;
}

}  // namespace dgap::engine
