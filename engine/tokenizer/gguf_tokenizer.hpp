#pragma once
#include "engine/formats/gguf_file.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// From `tokenizer.ggml.*`: byte-level BPE (`gpt2`) with a known pre-tokenizer, or SentencePiece's
/// BPE (`llama`). UsageError for tokenizers of another kind; IoError for values that are missing,
/// contradictory or out of range (a token twice, a merge of tokens that do not exist, ...).
Vocabulary read_gguf_tokenizer(const GgufFile& file);

}  // namespace dgap::engine
