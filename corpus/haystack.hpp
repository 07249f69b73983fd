#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::corpus {

/// Sentences of a text that read as prose, and how many tokens each takes.
struct Haystack {
  std::vector<std::string> sentences;
  std::vector<std::int64_t> tokens;
};

/// Splits after . ! ? and a space; keeps sentences of 21 to 299 bytes.
Haystack haystack_of(std::string_view text, const engine::Tokenizer& tokenizer);

}  // namespace dgap::corpus
