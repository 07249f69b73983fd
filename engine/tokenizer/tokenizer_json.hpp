#pragma once
#include <optional>
#include <string>

#include "engine/tokenizer/vocabulary.hpp"

namespace dgap::engine {

/// What a tokenizer.json holds.
struct TokenizerJson {
  Vocabulary vocabulary;  // bos and eos are not in this file
  /// The token that the post-processor puts in front of a sequence.
  std::optional<std::int32_t> template_bos;
  /// add_prefix_space of ByteLevel, where there is one.
  std::optional<bool> prefix_space;
};

/// Reads the tokenizer.json of Hugging Face's tokenizers, version 1.0, with a BPE model. IoError
/// for what is missing, contradictory or out of range; UsageError for what is not supported, naming
/// file, key and value. Nothing in the file is passed over, but `truncation` and `padding`, which
/// are not the tokenizer's.
TokenizerJson read_tokenizer_json(const std::string& path);

/// A token whose text is looked for in normalised text, with that text normalised as well.
AddedToken as_searched(AddedToken token, const std::vector<NormalizerStep>& normalizer);

}  // namespace dgap::engine
