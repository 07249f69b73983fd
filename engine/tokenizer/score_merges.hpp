#pragma once
#include <string>
#include <vector>

#include "engine/tokenizer/byte_pair_encoder.hpp"

namespace dgap::engine {

/// Fills in the merges of SentencePiece's byte-pair encoding: two neighbours merge where together
/// they are a token, the highest score first. `model.pieces` are the tokens by id, `scores` theirs.
/// Characters that occur in tokens without being tokens are appended to `model.pieces`, from
/// `model.first_unlisted` on. UsageError for a token of more than kMaxPieceBytes.
void add_score_merges(BytePairModel& model, const std::vector<float>& scores);

inline constexpr std::size_t kMaxPieceBytes = 512;

}  // namespace dgap::engine
