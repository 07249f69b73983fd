#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/added_tokens.hpp"
#include "engine/tokenizer/byte_pair_encoder.hpp"
#include "engine/tokenizer/pretokenizer.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// Byte-pair encoding as in GPT-2, Llama, Mistral and Qwen2: ids are those of Hugging Face's
/// tokenizers and of SentencePiece. Encoding allocates working memory per call, nothing per piece.
class BpeTokenizer final : public Tokenizer {
 public:
  /// UsageError for patterns that are not supported.
  explicit BpeTokenizer(Vocabulary vocabulary);
  BpeTokenizer(const BpeTokenizer&) = delete;  // encoder_ refers to vocabulary_
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  std::int64_t vocab_size() const override;
  std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string decode_next(std::span<const std::int32_t> ids) const override;
  std::int32_t bos() const override { return vocabulary_.bos; }
  std::int32_t eos() const override { return vocabulary_.eos; }
  std::string sha256() const override { return sha256_; }

 private:
  class Encoding;

  Vocabulary vocabulary_;
  std::string sha256_;
  AddedTokenFinder raw_tokens_, normalized_tokens_;
  PreTokenizer pretokenizer_;
  BytePairEncoder encoder_;
};

}  // namespace dgap::engine
