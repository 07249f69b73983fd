#pragma once
#include <string>

#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// The tokenizer of a Hugging Face folder: tokenizer.json, else tokenizer.model (SentencePiece);
/// from tokenizer_config.json the begin and the end of sequences, and added tokens that
/// tokenizer.json lacks; else the end from generation_config.json or config.json. Errors as in
/// read_tokenizer_json; IoError where the folder has neither.
Vocabulary read_huggingface_tokenizer(const std::string& folder);

}  // namespace dgap::engine
