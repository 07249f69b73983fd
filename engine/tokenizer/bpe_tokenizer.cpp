#include "engine/tokenizer/bpe_tokenizer.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

AddedTokenFinder finder(const std::vector<AddedToken>& added, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : added) {
    if (token.normalized == normalized) tokens.push_back(token);
  }
  return AddedTokenFinder(std::move(tokens));
}

}  // namespace

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      sha256_(hash_of(vocabulary_)),
      raw_tokens_(finder(vocabulary_.added, false)),
      normalized_tokens_(finder(vocabulary_.added, true)),
      pretokenizer_(vocabulary_.split),
      encoder_(vocabulary_.model) {}

std::int64_t BpeTokenizer::vocab_size() const {
  return static_cast<std::int64_t>(vocabulary_.texts.size());
}

/// One call of encode.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, std::string_view text, bool parse_special)
      : tokenizer_(tokenizer),
        text_(text),
        parse_special_(parse_special),
        pieces_(tokenizer.pretokenizer_) {
    ids_.reserve(text.size() / 4 + 1);
  }

  std::vector<std::int32_t> run() {
    tokenizer_.raw_tokens_.walk(
        text_, parse_special_, [this](std::size_t begin, std::size_t end) { raw(begin, end); },
        [this](std::int32_t id) { ids_.push_back(id); });
    return std::move(ids_);
  }

 private:
  void raw(std::size_t begin, std::size_t end) {
    const std::string_view normalized =
        normalize(text_.substr(begin, end - begin), tokenizer_.vocabulary_.normalizer, normalizer_);
    tokenizer_.normalized_tokens_.walk(
        normalized, parse_special_,
        [&](std::size_t from, std::size_t to) {
          plain(normalized.substr(from, to - from), begin, begin == 0 && from == 0);
        },
        [this](std::int32_t id) { ids_.push_back(id); });
  }

  /// `offset`: of the stretch of text that `part` lies in.
  void plain(std::string_view part, std::size_t offset, bool at_begin) {
    part = with_space_marks(part, at_begin);
    const BytePairEncoder& encoder = tokenizer_.encoder_;
    if (const std::size_t at = encoder.find_unencodable(part); at != std::string_view::npos) {
      const auto byte = static_cast<unsigned char>(part[at]);
      throw base::IoError("the byte " + std::to_string(byte) + " at offset " +
                          std::to_string(offset + at) +
                          " has no token in this vocabulary; remove it from the text");
    }
    pieces_.start(part);
    for (std::string_view piece = pieces_.next(); !piece.empty(); piece = pieces_.next()) {
      encoder.encode(piece, workspace_, ids_);
    }
  }

  std::string_view with_space_marks(std::string_view part, bool at_begin) {
    using Marks = Vocabulary::SpaceMarks;
    const Marks marks = tokenizer_.vocabulary_.space_marks;
    if (marks == Marks::none) return part;
    const bool prepend = marks == Marks::replace_and_prepend ||
                         (marks == Marks::replace_and_prepend_first && at_begin);
    marked_.clear();
    if (prepend && !part.starts_with(' ') && !part.starts_with(kSpaceMark)) marked_ += kSpaceMark;
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t space = std::min(part.find(' ', at), part.size());
      marked_.append(part, at, space - at);
      if (space < part.size()) marked_ += kSpaceMark;
      at = space + 1;
    }
    return marked_;
  }

  const BpeTokenizer& tokenizer_;
  std::string_view text_;
  bool parse_special_;
  PieceCursor pieces_;
  BytePairEncoder::Workspace workspace_;
  NormalizerBuffers normalizer_;
  std::string marked_;
  std::vector<std::int32_t> ids_;
};

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, bool parse_special) const {
  // Normalisation may make a text three times as long, and pieces are counted in 32 bits.
  if (text.size() > std::numeric_limits<std::uint32_t>::max() / 4) {
    throw base::UsageError("texts of more than 1 GiB cannot be tokenized in one piece");
  }
  if (const std::size_t valid = base::valid_utf8_prefix(text); valid != text.size()) {
    throw base::IoError("the text is not valid UTF-8 at byte " + std::to_string(valid));
  }
  return Encoding(*this, text, parse_special).run();
}

std::string BpeTokenizer::decode_next(std::span<const std::int32_t> ids) const {
  std::size_t size = 0;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw base::UsageError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                             std::to_string(vocab_size()) + " tokens");
    }
    size += vocabulary_.texts[static_cast<std::size_t>(id)].size();
  }
  std::string text;
  text.reserve(size);
  for (const std::int32_t id : ids) text += vocabulary_.texts[static_cast<std::size_t>(id)];
  return text;
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text = decode_next(ids);
  if (vocabulary_.strips_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace dgap::engine
