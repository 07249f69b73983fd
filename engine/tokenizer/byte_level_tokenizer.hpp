#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/byte_pair_encoder.hpp"
#include "engine/tokenizer/pretokenizer.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// Byte-level BPE as in GPT-2, Llama 3, Qwen2 and SmolLM2: ids are those of Hugging Face's
/// tokenizers, but that text is taken as it is (no Unicode normalisation, so that decode is the
/// exact inverse of encode). Encoding allocates working memory per call, nothing per piece.
class ByteLevelTokenizer final : public Tokenizer {
 public:
  explicit ByteLevelTokenizer(Vocabulary vocabulary);
  ByteLevelTokenizer(const ByteLevelTokenizer&) = delete;  // encoder_ refers to vocabulary_
  ByteLevelTokenizer& operator=(const ByteLevelTokenizer&) = delete;

  std::int64_t vocab_size() const override;
  std::vector<std::int32_t> encode(std::string_view text, bool parse_special) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t bos() const override { return bos_; }
  std::int32_t eos() const override { return vocabulary_.eos; }
  std::string sha256() const override { return vocabulary_.sha256; }

 private:
  class Encoding;
  std::int32_t special_at(std::string_view text) const;

  Vocabulary vocabulary_;
  PreTokenizer pretokenizer_;
  BytePairEncoder encoder_;
  std::int32_t bos_ = -1;
  std::array<std::vector<std::int32_t>, 256> special_by_first_byte_;  // longest first
};

}  // namespace dgap::engine
