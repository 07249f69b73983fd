#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/tokenizer/score_merges.hpp"
#include "engine/tokenizer/sentencepiece_model.hpp"
#include "engine/tokenizer/spaced_pieces.hpp"

namespace dgap::engine {
namespace {

class Builder {
 public:
  explicit Builder(const std::vector<SpacedPiece>& pieces) : pieces_(pieces) {}

  Vocabulary build(bool dummy_prefix) {
    if (pieces_.empty()) throw base::IoError("the vocabulary is empty");
    for (std::size_t id = 0; id < pieces_.size(); ++id) add(id);
    const std::ptrdiff_t bytes =
        std::count_if(model().byte_tokens.begin(), model().byte_tokens.end(),
                      [](std::int32_t id) { return id >= 0; });
    if (bytes != 0 && bytes != 256) {
      throw base::IoError("the vocabulary has " + std::to_string(bytes) +
                          " of the 256 tokens <0x00> ... <0xFF>");
    }
    model().units = BytePairModel::Units::characters;
    model().fuse_unknown = true;
    add_score_merges(model(), scores_);
    refuse_reachable_unused();
    if (dummy_prefix) {
      vocabulary_.normalizer.push_back(
          {NormalizerStep::Kind::prepend, {}, std::string(kSpaceMark)});
    }
    vocabulary_.normalizer.push_back({NormalizerStep::Kind::replace, " ", std::string(kSpaceMark)});
    vocabulary_.strips_space = dummy_prefix;
    return std::move(vocabulary_);
  }

 private:
  using Type = SpacedPiece::Type;
  BytePairModel& model() { return vocabulary_.model; }

  void add(std::size_t index) {
    const SpacedPiece& piece = pieces_[index];
    const auto id = static_cast<std::int32_t>(index);
    const auto name = [&] { return "token " + std::to_string(id) + " '" + piece.text + "'"; };
    if (piece.text.empty()) throw base::IoError(name() + " is empty");
    if (base::valid_utf8_prefix(piece.text) != piece.text.size()) {
      throw base::IoError("token " + std::to_string(id) + " is not valid UTF-8");
    }
    if (const auto [at, added] = ids_.emplace(piece.text, id); !added) {
      throw base::IoError(name() + " is also token " + std::to_string(at->second));
    }
    if (!std::isfinite(piece.score))
      throw base::IoError(name() + " has a score that is not finite");
    std::string text = marks_to_spaces(piece.text);
    if (piece.type == Type::byte) {
      const std::optional<char> byte = byte_of(piece.text);
      if (!byte) throw base::IoError(name() + " is of type byte, but not written as one");
      model().byte_tokens[static_cast<unsigned char>(*byte)] = id;
      text.assign(1, *byte);
    }
    if (piece.type == Type::unknown) model().unknown = id;
    if (piece.type == Type::control || piece.type == Type::user_defined) add_found(piece, id);
    model().pieces.push_back(piece.type == Type::normal ? piece.text : "");
    vocabulary_.texts.push_back(std::move(text));
    scores_.push_back(piece.score);
  }

  /// Control symbols are found in text where they are asked for, and user-defined ones after spaces
  /// have become marks.
  void add_found(const SpacedPiece& piece, std::int32_t id) {
    AddedToken token;
    token.text = piece.text;
    token.id = id;
    token.special = piece.type == Type::control;
    token.normalized = !token.special;
    vocabulary_.added.push_back(std::move(token));
  }

  /// SentencePiece takes an unused token apart again, by the merges that led to it.
  void refuse_reachable_unused() const {
    std::unordered_map<std::string_view, bool> known;
    for (const std::string& piece : vocabulary_.model.pieces) known.emplace(piece, true);
    for (const SpacedPiece& piece : pieces_) {
      if (piece.type != Type::unused) continue;
      const std::string_view text = piece.text;
      for (std::size_t at = utf8_length(text[0]); at < std::min(text.size(), kMaxPieceBytes);
           at += utf8_length(text[at])) {
        if (!known.contains(text.substr(0, at)) || !known.contains(text.substr(at))) continue;
        throw base::UsageError("the token '" + piece.text.substr(0, 200) +
                               "' is of type unused, but text leads to it; this is not supported");
      }
    }
  }

  const std::vector<SpacedPiece>& pieces_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::vector<float> scores_;
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary vocabulary_of(const std::vector<SpacedPiece>& pieces, bool dummy_prefix) {
  return Builder(pieces).build(dummy_prefix);
}

}  // namespace dgap::engine
