#pragma once
#include <string>

#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// What a SentencePiece model file holds. Control symbols and user-defined ones are added tokens.
struct SentencePieceModel {
  Vocabulary vocabulary;
  std::int32_t bos = -1, eos = -1;  // -1: none
};

/// Reads a `tokenizer.model` of SentencePiece (protocol buffers, ModelProto) of type BPE without
/// character rules of its own, as in Llama 2 and Mistral v1-v3. IoError for a damaged file,
/// UsageError for what is not supported, naming file, field and value.
SentencePieceModel read_sentencepiece_model(const std::string& path);

/// The vocabulary of pieces as SentencePiece's files and GGUF's `llama` tokenizers have them.
struct SpacedPiece {
  enum class Type { normal = 1, unknown, control, user_defined, unused, byte };
  std::string text;
  float score = 0.0f;
  Type type = Type::normal;
};
/// `dummy_prefix`: a space is put in front of text. IoError and UsageError without a file's name.
Vocabulary vocabulary_of(const std::vector<SpacedPiece>& pieces, bool dummy_prefix);

}  // namespace dgap::engine
