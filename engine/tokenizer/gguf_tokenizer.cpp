#include "engine/tokenizer/gguf_tokenizer.hpp"

#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/sentencepiece_model.hpp"

namespace dgap::engine {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kSpacePrefix = "tokenizer.ggml.add_space_prefix";

using Type = SpacedPiece::Type;

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  Vocabulary read() {
    const std::string_view model = file_.string("tokenizer.ggml.model");
    bool adds_bos = false;
    if (model == "gpt2") {
      adds_bos = read_byte_level();
    } else if (model == "llama") {
      read_spaced();
      adds_bos = true;
    } else {
      unsupported("'tokenizer.ggml.model' is " + in_quotes(model) +
                  ", not supported; supported are 'gpt2' (byte-level BPE) and 'llama' "
                  "(SentencePiece BPE)");
    }
    vocabulary_.eos = token_id("tokenizer.ggml.eos_token_id");
    const std::int32_t bos = token_id("tokenizer.ggml.bos_token_id");
    const bool asked = file_.has(kAddBos) && file_.boolean(kAddBos);
    if (asked && bos < 0) {
      damaged(in_quotes(kAddBos) + " is true, but 'tokenizer.ggml.bos_token_id' is missing");
    }
    if (file_.has(kAddBos) ? asked : adds_bos) vocabulary_.bos = bos;
    return std::move(vocabulary_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(file_.path() + ": " + what);
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw base::UsageError(file_.path() + ": " + what);
  }

  std::vector<SpacedPiece> read_pieces() const {
    const std::vector<std::string_view> texts = file_.strings(kTokens);
    const std::vector<std::int32_t> types =
        file_.has(kTypes) ? file_.integers(kTypes) : std::vector<std::int32_t>(texts.size(), 1);
    if (texts.empty()) damaged(in_quotes(kTokens) + " is empty");
    if (texts.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      damaged(in_quotes(kTokens) + " has " + std::to_string(texts.size()) + " elements");
    }
    check_count(kTypes, types.size(), texts.size());
    std::vector<SpacedPiece> pieces(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (types[i] < 1 || types[i] > 6) {
        damaged("token " + std::to_string(i) + " " + in_quotes(texts[i]) + " has type " +
                std::to_string(types[i]));
      }
      pieces[i] = {std::string(texts[i]), 0.0f, static_cast<Type>(types[i])};
    }
    return pieces;
  }

  void check_count(std::string_view key, std::size_t count, std::size_t tokens) const {
    if (count == tokens) return;
    damaged(in_quotes(key) + " has " + std::to_string(count) + " elements, " + in_quotes(kTokens) +
            " " + std::to_string(tokens));
  }

  void read_spaced() {
    std::vector<SpacedPiece> pieces = read_pieces();
    const std::vector<float> scores = file_.reals(kScores);
    check_count(kScores, scores.size(), pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].score = scores[i];
    const std::string_view removes = "tokenizer.ggml.remove_extra_whitespaces";
    if (file_.has(removes) && file_.boolean(removes)) {
      unsupported(in_quotes(removes) + " is true, which is not supported");
    }
    if (file_.has("tokenizer.ggml.precompiled_charsmap")) {
      unsupported("'tokenizer.ggml.precompiled_charsmap' is not supported");
    }
    try {
      vocabulary_ = vocabulary_of(pieces, !file_.has(kSpacePrefix) || file_.boolean(kSpacePrefix));
    } catch (const base::IoError& error) {
      damaged(error.what());
    } catch (const base::UsageError& error) {
      unsupported(error.what());
    }
  }

  /// Whether sequences begin with BOS unless the file says otherwise.
  bool read_byte_level() {
    if (!file_.has("tokenizer.ggml.pre")) {
      unsupported(
          "does not say how its tokenizer splits text ('tokenizer.ggml.pre' is missing); "
          "convert the model again with a newer converter");
    }
    if (file_.has(kSpacePrefix) && file_.boolean(kSpacePrefix)) {
      unsupported(in_quotes(kSpacePrefix) + " is true, not supported for byte-level BPE");
    }
    const TaggedSplit tagged = tagged_split(file_.string("tokenizer.ggml.pre"));
    vocabulary_.split = tagged.steps;
    vocabulary_.model.whole_pieces_first = tagged.whole_pieces_first;
    if (tagged.nfc) vocabulary_.normalizer.push_back({NormalizerStep::Kind::nfc, {}, {}});
    pieces_ = read_pieces();
    ids_.reserve(pieces_.size());
    for (std::size_t i = 0; i < pieces_.size(); ++i) add_token(static_cast<std::int32_t>(i));
    read_merges();
    return tagged.adds_bos;
  }

  TaggedSplit tagged_split(std::string_view tag) const {
    try {
      return split_of_tag(tag);
    } catch (const base::UsageError& error) {
      unsupported(error.what());
    }
  }

  void add_token(std::int32_t id) {
    const SpacedPiece& piece = pieces_[static_cast<std::size_t>(id)];
    const auto name = [&] { return "token " + std::to_string(id) + " " + in_quotes(piece.text); };
    if (piece.text.empty()) damaged(name() + " is empty");
    if (const auto [at, added] = ids_.emplace(piece.text, id); !added) {
      damaged(name() + " is also token " + std::to_string(at->second));
    }
    const bool plain = piece.type == Type::normal || piece.type == Type::byte;
    std::string text = piece.text;
    if (plain) {
      std::optional<std::string> bytes = alphabet_.to_bytes(text);
      if (!bytes) damaged(name() + " is not written in the byte-level alphabet");
      text = std::move(*bytes);
    }
    vocabulary_.model.pieces.push_back(plain ? text : "");
    vocabulary_.texts.push_back(std::move(text));
    if (piece.type == Type::control || piece.type == Type::user_defined) {
      AddedToken token;
      token.text = piece.text;
      token.id = id;
      token.special = piece.type == Type::control;
      vocabulary_.added.push_back(std::move(token));
    }
  }

  void read_merges() {
    const std::vector<std::string_view> lines = file_.strings(kMerges);
    std::unordered_set<std::uint64_t> pairs;
    pairs.reserve(lines.size());
    vocabulary_.model.merges.reserve(lines.size());
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      const std::string_view line = lines[rank];
      const auto name = [&] { return "merge " + std::to_string(rank) + " " + in_quotes(line); };
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        damaged(name() + " is not two tokens with a space between them");
      }
      const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
      const Merge merge{plain_id(left), plain_id(right),
                        plain_id(std::string(left) + std::string(right)),
                        static_cast<std::uint32_t>(rank)};
      if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
        damaged(name() + " names " + (merge.left < 0 || merge.right < 0 ? "" : "as its result ") +
                "a token that the vocabulary lacks");
      }
      const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(merge.left)} << 32 |
                                 static_cast<std::uint32_t>(merge.right);
      if (!pairs.insert(pair).second) damaged(name() + " occurs twice");
      vocabulary_.model.merges.push_back(merge);
    }
  }

  std::int32_t plain_id(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return -1;
    return vocabulary_.model.pieces[static_cast<std::size_t>(found->second)].empty()
               ? -1
               : found->second;
  }

  std::int32_t token_id(std::string_view key) const {
    if (!file_.has(key)) return -1;
    const std::int64_t id = file_.integer(key);
    if (id < 0 || id >= static_cast<std::int64_t>(vocabulary_.texts.size())) {
      damaged(in_quotes(key) + " is " + std::to_string(id) + "; the vocabulary has " +
              std::to_string(vocabulary_.texts.size()) + " tokens");
    }
    return static_cast<std::int32_t>(id);
  }

  const GgufFile& file_;
  const ByteAlphabet alphabet_;
  std::vector<SpacedPiece> pieces_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // by text in the file
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary read_gguf_tokenizer(const GgufFile& file) { return Reader(file).read(); }

}  // namespace dgap::engine
