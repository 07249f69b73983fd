#include "engine/tokenizer/byte_level_tokenizer.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::engine {
ByteLevelTokenizer::ByteLevelTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      pretokenizer_(vocabulary_.pretokenizer),
      encoder_(vocabulary_.tokens, vocabulary_.plain, vocabulary_.merges,
               pretokenizer_.whole_pieces_first()) {
  bos_ = vocabulary_.add_bos.value_or(pretokenizer_.adds_bos()) ? vocabulary_.bos : -1;
  for (const std::int32_t id : vocabulary_.special) {
    const std::string& text = vocabulary_.tokens[static_cast<std::size_t>(id)];
    special_by_first_byte_[static_cast<unsigned char>(text[0])].push_back(id);
  }
  const auto longer = [this](std::int32_t a, std::int32_t b) {
    return vocabulary_.tokens[static_cast<std::size_t>(a)].size() >
           vocabulary_.tokens[static_cast<std::size_t>(b)].size();
  };
  for (auto& ids : special_by_first_byte_) std::stable_sort(ids.begin(), ids.end(), longer);
}

std::int64_t ByteLevelTokenizer::vocab_size() const {
  return static_cast<std::int64_t>(vocabulary_.tokens.size());
}

/// One call of encode.
class ByteLevelTokenizer::Encoding {
 public:
  Encoding(const ByteLevelTokenizer& tokenizer, std::string_view text)
      : tokenizer_(tokenizer), text_(text), pieces_(tokenizer.pretokenizer_) {
    ids_.reserve(text.size() / 4 + 1);
  }

  void plain(std::size_t begin, std::size_t end) {
    const std::string_view part = text_.substr(begin, end - begin);
    const BytePairEncoder& encoder = tokenizer_.encoder_;
    if (const std::size_t at = encoder.find_unencodable(part); at != std::string_view::npos) {
      const auto byte = static_cast<unsigned char>(part[at]);
      throw base::IoError("the byte " + std::to_string(byte) + " at offset " +
                          std::to_string(begin + at) +
                          " has no token in this vocabulary; remove it from the text");
    }
    pieces_.start(part);
    for (std::string_view piece = pieces_.next(); !piece.empty(); piece = pieces_.next()) {
      encoder.encode(piece, workspace_, ids_);
    }
  }

  void special(std::int32_t id) { ids_.push_back(id); }

  std::vector<std::int32_t> take() { return std::move(ids_); }

 private:
  const ByteLevelTokenizer& tokenizer_;
  std::string_view text_;
  PieceCursor pieces_;
  BytePairEncoder::Workspace workspace_;
  std::vector<std::int32_t> ids_;
};

std::vector<std::int32_t> ByteLevelTokenizer::encode(std::string_view text,
                                                     bool parse_special) const {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw base::UsageError("texts of more than 4 GiB cannot be tokenized in one piece");
  }
  if (const std::size_t valid = base::valid_utf8_prefix(text); valid != text.size()) {
    throw base::IoError("the text is not valid UTF-8 at byte " + std::to_string(valid));
  }
  Encoding encoding(*this, text);
  std::size_t begin = 0;  // of the plain text since the last special token
  for (std::size_t i = 0; parse_special && i < text.size();) {
    const std::int32_t id = special_at(text.substr(i));
    if (id < 0) {
      ++i;
      continue;
    }
    encoding.plain(begin, i);
    encoding.special(id);
    i += vocabulary_.tokens[static_cast<std::size_t>(id)].size();
    begin = i;
  }
  encoding.plain(begin, text.size());
  return encoding.take();
}

/// The longest special token that `text` begins with; -1 for none.
std::int32_t ByteLevelTokenizer::special_at(std::string_view text) const {
  for (const std::int32_t id : special_by_first_byte_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(vocabulary_.tokens[static_cast<std::size_t>(id)])) return id;
  }
  return -1;
}

std::string ByteLevelTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::size_t size = 0;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw base::UsageError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                             std::to_string(vocab_size()) + " tokens");
    }
    size += vocabulary_.tokens[static_cast<std::size_t>(id)].size();
  }
  std::string text;
  text.reserve(size);
  for (const std::int32_t id : ids) text += vocabulary_.tokens[static_cast<std::size_t>(id)];
  return text;
}

}  // namespace dgap::engine
