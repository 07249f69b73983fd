#include "engine/tokenizer/vocabulary.hpp"

#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"

namespace dgap::engine {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";

enum TokenType : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte };

class VocabularyReader {
 public:
  explicit VocabularyReader(const GgufFile& file) : file_(file) {}

  Vocabulary read() {
    check_kind();
    vocabulary_.pretokenizer = file_.string("tokenizer.ggml.pre");
    read_tokens();
    read_merges();
    vocabulary_.bos = token_id("tokenizer.ggml.bos_token_id");
    vocabulary_.eos = token_id("tokenizer.ggml.eos_token_id");
    read_add_bos();
    vocabulary_.sha256 = hash();
    return std::move(vocabulary_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw base::IoError(file_.path() + ": " + what);
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw base::UsageError(file_.path() + ": " + what);
  }

  void check_kind() const {
    const std::string_view model = file_.string("tokenizer.ggml.model");
    if (model != "gpt2") {
      unsupported("'tokenizer.ggml.model' is " + in_quotes(model) +
                  ", not supported in this version; supported is 'gpt2' (byte-level BPE)");
    }
    if (!file_.has("tokenizer.ggml.pre")) {
      unsupported(
          "does not say how its tokenizer splits text ('tokenizer.ggml.pre' is missing); "
          "convert the model again with a newer converter");
    }
    const std::string_view prefix = "tokenizer.ggml.add_space_prefix";
    if (file_.has(prefix) && file_.boolean(prefix)) {
      unsupported(in_quotes(prefix) + " is true, not supported for byte-level BPE");
    }
  }

  void read_tokens() {
    const std::vector<std::string_view> texts = file_.strings(kTokens);
    const std::vector<std::int32_t> types = file_.has(kTypes)
                                                ? file_.integers(kTypes)
                                                : std::vector<std::int32_t>(texts.size(), normal);
    if (texts.empty()) damaged(in_quotes(kTokens) + " is empty");
    if (texts.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      damaged(in_quotes(kTokens) + " has " + std::to_string(texts.size()) + " elements");
    }
    if (types.size() != texts.size()) {
      damaged(in_quotes(kTypes) + " has " + std::to_string(types.size()) + " elements, " +
              in_quotes(kTokens) + " " + std::to_string(texts.size()));
    }
    ids_.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      add_token(static_cast<std::int32_t>(i), texts[i], types[i]);
    }
  }

  void add_token(std::int32_t id, std::string_view text, std::int32_t type) {
    const auto name = [&] { return "token " + std::to_string(id) + " " + in_quotes(text); };
    if (type < normal || type > byte) damaged(name() + " has type " + std::to_string(type));
    if (text.empty()) damaged(name() + " is empty");
    if (const auto [at, added] = ids_.emplace(text, id); !added) {
      damaged(name() + " is also token " + std::to_string(at->second));
    }
    const bool plain = type == normal || type == byte;
    if (plain) {
      std::optional<std::string> bytes = alphabet_.to_bytes(text);
      if (!bytes) damaged(name() + " is not written in the byte-level alphabet");
      vocabulary_.tokens.push_back(std::move(*bytes));
    } else {
      vocabulary_.tokens.emplace_back(text);
    }
    vocabulary_.plain.push_back(plain);
    if (type == control || type == user_defined) vocabulary_.special.push_back(id);
  }

  void read_merges() {
    const std::vector<std::string_view> lines = file_.strings(kMerges);
    std::unordered_set<std::uint64_t> pairs;
    pairs.reserve(lines.size());
    vocabulary_.merges.reserve(lines.size());
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      const std::string_view line = lines[rank];
      const auto name = [&] { return "merge " + std::to_string(rank) + " " + in_quotes(line); };
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        damaged(name() + " is not two tokens with a space between them");
      }
      const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
      Merge merge{plain_id(left), plain_id(right), 0};
      merge.result = plain_id(std::string(left) + std::string(right));
      if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
        damaged(name() + " names " + (merge.left < 0 || merge.right < 0 ? "" : "as its result ") +
                "a token that the vocabulary lacks");
      }
      const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(merge.left)} << 32 |
                                 static_cast<std::uint32_t>(merge.right);
      if (!pairs.insert(pair).second) damaged(name() + " occurs twice");
      vocabulary_.merges.push_back(merge);
    }
  }

  std::int32_t plain_id(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return -1;
    return vocabulary_.plain[static_cast<std::size_t>(found->second)] ? found->second : -1;
  }

  std::int32_t token_id(std::string_view key) const {
    if (!file_.has(key)) return -1;
    const std::int64_t id = file_.integer(key);
    if (id < 0 || id >= static_cast<std::int64_t>(vocabulary_.tokens.size())) {
      damaged(in_quotes(key) + " is " + std::to_string(id) + "; the vocabulary has " +
              std::to_string(vocabulary_.tokens.size()) + " tokens");
    }
    return static_cast<std::int32_t>(id);
  }

  void read_add_bos() {
    const std::string_view key = "tokenizer.ggml.add_bos_token";
    if (file_.has(key)) vocabulary_.add_bos = file_.boolean(key);
    if (vocabulary_.add_bos.value_or(false) && vocabulary_.bos < 0) {
      damaged(in_quotes(key) + " is true, but 'tokenizer.ggml.bos_token_id' is missing");
    }
  }

  std::string hash() const {
    std::string text = "byte-level-bpe/1\n" + vocabulary_.pretokenizer + "\n";
    const auto number = [&](std::int64_t value) { text += std::to_string(value) + " "; };
    number(vocabulary_.bos);
    number(vocabulary_.eos);
    number(vocabulary_.add_bos ? *vocabulary_.add_bos : -1);
    number(static_cast<std::int64_t>(vocabulary_.tokens.size()));
    for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
      number(vocabulary_.plain[id]);
      number(static_cast<std::int64_t>(vocabulary_.tokens[id].size()));
      text += vocabulary_.tokens[id];
    }
    for (const std::int32_t id : vocabulary_.special) number(id);
    text += "\n";
    for (const Merge& merge : vocabulary_.merges) {
      number(merge.left);
      number(merge.right);
    }
    return base::sha256_hex(text);
  }

  const GgufFile& file_;
  const ByteAlphabet alphabet_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // by text in the file
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary read_vocabulary(const GgufFile& file) { return VocabularyReader(file).read(); }

}  // namespace dgap::engine
