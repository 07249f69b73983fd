#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer/added_tokens.hpp"
#include "engine/tokenizer/byte_pair_encoder.hpp"
#include "engine/tokenizer/normalizer.hpp"
#include "engine/tokenizer/split_step.hpp"

namespace dgap::engine {

/// Everything that a tokenizer is made of, checked, whatever file it came from. In the order of
/// encoding: added tokens of the text as it is, normalizer, added tokens of normalised text,
/// space marks, split, byte-pair encoding.
struct Vocabulary {
  BytePairModel model;
  /// By id, what decode gives for a token; empty where an id has no token.
  std::vector<std::string> texts;
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  /// Metaspace: spaces become marks, and a mark goes in front of what does not begin with one: of
  /// every stretch between added tokens, or of the one at the begin of the text only.
  enum class SpaceMarks { none, replace, replace_and_prepend, replace_and_prepend_first };
  SpaceMarks space_marks = SpaceMarks::none;
  std::vector<SplitStep> split;
  /// decode drops a space in front of the text (the one that encode puts there).
  bool strips_space = false;
  std::int32_t bos = -1, eos = -1;  // bos: -1 also where sequences begin without it
};

/// SHA-256 over everything above.
std::string hash_of(const Vocabulary& vocabulary);

}  // namespace dgap::engine
