#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/formats/gguf_file.hpp"
#include "engine/tokenizer/byte_pair_encoder.hpp"

namespace dgap::engine {

/// What a byte-level byte-pair tokenizer is made of, checked.
struct Vocabulary {
  std::vector<std::string> tokens;    // bytes, by id; distinct among `plain` ones and among others
  std::vector<bool> plain;            // text becomes it; others are special, user-defined or unused
  std::vector<std::int32_t> special;  // ids whose texts parse_special recognises
  std::vector<Merge> merges;
  std::string pretokenizer;         // tag
  std::int32_t bos = -1, eos = -1;  // -1: none
  std::optional<bool> add_bos;      // nothing: as is usual for the pre-tokenizer
  std::string sha256;               // of all of the above
};

/// From `tokenizer.ggml.*`. UsageError for tokenizers of another kind; IoError for values that are
/// missing, contradictory or out of range (a token twice, a merge of tokens that do not exist,
/// ...).
Vocabulary read_vocabulary(const GgufFile& file);

}  // namespace dgap::engine
