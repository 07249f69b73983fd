#include "engine/tokenizer/tokenizer_json.hpp"

#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"
#include "base/files.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/spaced_pieces.hpp"
#include "engine/tokenizer/tokenizer_json_steps.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

using nlohmann::json;
using schemas::JsonObject;

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;
constexpr std::size_t kMaxDepth = 64;

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path),
        json_(schemas::parse_json_object(base::read_file(path, kMaxFile), path, kMaxDepth)),
        root_(json_, path, "") {}

  TokenizerJson read() {
    if (const std::string version = root_.text("version"); version != "1.0") {
      unsupported(path_, "version", version, "1.0");
    }
    for (const char* key : {"truncation", "padding"}) optional_member(root_, key);
    vocabulary().normalizer = read_normalizer(part("normalizer"), place("normalizer"));
    split_ = read_pre_tokenizer(part("pre_tokenizer"), place("pre_tokenizer"));
    vocabulary().split = split_.split;
    vocabulary().space_marks = split_.space_marks;
    out_.prefix_space = split_.prefix_space;
    decoder_ = read_decoder(part("decoder"), place("decoder"));
    vocabulary().strips_space = decoder_.strips_space;
    if (decoder_.byte_level != split_.byte_level) {
      unsupported(path_, "decoder", decoder_.byte_level ? "ByteLevel" : "not ByteLevel",
                  "ByteLevel in both pre_tokenizer and decoder, or in none");
    }
    read_model();
    read_added_tokens();
    out_.template_bos = read_post_processor(part("post_processor"), place("post_processor"));
    if (out_.template_bos && !is_token(*out_.template_bos)) {
      root_.fail("post_processor", "names the token " + std::to_string(*out_.template_bos) +
                                       ", which the vocabulary lacks");
    }
    root_.refuse_others();
    return std::move(out_);
  }

 private:
  Vocabulary& vocabulary() { return out_.vocabulary; }
  BytePairModel& model() { return out_.vocabulary.model; }
  JsonPlace place(const char* key) const { return {path_, key}; }

  const json& part(const char* key) {
    static const json null;
    const json* value = optional_member(root_, key);
    return value == nullptr ? null : *value;
  }

  void read_model() {
    JsonObject object = root_.object("model");
    if (object.value().contains("type")) {
      if (const std::string type = object.text("type"); type != "BPE") {
        unsupported(path_, "model.type", type, "BPE");
      }
    }
    if (const json* dropout = optional_member(object, "dropout"); dropout && *dropout != 0) {
      unsupported(path_, "model.dropout", dropout->dump(), "null");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json* value = optional_member(object, key);
      if (value == nullptr || *value == "") continue;
      unsupported(path_, std::string("model.") + key, value->dump(), "\"\"");
    }
    read_tokens(object);
    model().units =
        split_.byte_level ? BytePairModel::Units::bytes : BytePairModel::Units::characters;
    model().whole_pieces_first = flag_or(object, "ignore_merges", false);
    model().fuse_unknown = flag_or(object, "fuse_unk", false);
    if (optional_member(object, "unk_token") != nullptr) {
      model().unknown = id_of(object.text("unk_token"));
      if (model().unknown < 0) object.fail("unk_token", "is not in the vocabulary");
    }
    if (flag_or(object, "byte_fallback", false)) read_byte_tokens(object);
    read_merges(object);
    object.refuse_others();
  }

  void read_tokens(JsonObject& object) {
    const json& tokens = object.any("vocab");
    if (!tokens.is_object() || tokens.empty()) object.fail("vocab", "is not an object with tokens");
    ids_.reserve(tokens.size());
    id_limit_ = 4 * (tokens.size() + part("added_tokens").size()) + 1024;
    for (const auto& [text, id] : tokens.items()) {
      if (text.empty()) object.fail("vocab", "has an empty token");
      place_token(checked_id(object, "vocab." + text, id), text, "model.vocab." + text);
      const std::int32_t number = id.get<std::int32_t>();
      ids_.emplace(text, number);
      set_piece(static_cast<std::size_t>(number), text);
    }
  }

  std::int32_t checked_id(JsonObject& object, const std::string& key, const json& id) const {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= id_limit_) {
      object.fail(key.substr(0, 200), "is " + id.dump().substr(0, 80) +
                                          "; expected an id from 0 to " +
                                          std::to_string(id_limit_ - 1));
    }
    return id.get<std::int32_t>();
  }

  /// Makes room for a token and refuses an id that is taken.
  void place_token(std::int32_t id, const std::string& text, const std::string& key) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= names_.size()) {
      names_.resize(index + 1);
      vocabulary().texts.resize(index + 1);
      model().pieces.resize(index + 1);
    }
    if (!names_[index].empty()) {
      throw base::IoError(path_ + ": " + key.substr(0, 200) + ": the id " + std::to_string(id) +
                          " is also that of '" + names_[index] + "'");
    }
    names_[index] = text;
  }

  /// What text becomes the token, and what it becomes when decoded.
  void set_piece(std::size_t id, const std::string& text) {
    if (split_.byte_level) {
      const std::optional<std::string> bytes = alphabet_.to_bytes(text);
      model().pieces[id] = bytes.value_or("");  // not in the alphabet: no text leads to it
      vocabulary().texts[id] = bytes.value_or(text);
    } else {
      model().pieces[id] = text;
      const std::optional<char> byte = decoder_.byte_fallback ? byte_of(text) : std::nullopt;
      vocabulary().texts[id] = byte                       ? std::string(1, *byte)
                               : decoder_.marks_to_spaces ? marks_to_spaces(text)
                                                          : text;
    }
  }

  void read_byte_tokens(JsonObject& object) {
    int found = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::int32_t id = id_of(byte_name(byte));
      model().byte_tokens[byte] = id;
      found += id >= 0 ? 1 : 0;
    }
    if (found != 0 && found != 256) {
      object.fail("byte_fallback", "is true, but the vocabulary has " + std::to_string(found) +
                                       " of the 256 tokens <0x00> ... <0xFF>");
    }
  }

  void read_merges(JsonObject& object) {
    const json& merges = object.any("merges");
    if (!merges.is_array()) object.fail("merges", "is not an array");
    std::unordered_set<std::uint64_t> pairs;
    pairs.reserve(merges.size());
    model().merges.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string key = "merges[" + std::to_string(rank) + "]";
      const auto [left, right] = parts_of(object, key, merges[rank]);
      const Merge merge{id_of(left), id_of(right), id_of(left + right),
                        static_cast<std::uint32_t>(rank)};
      if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
        object.fail(key, "is '" + (left + "' and '" + right).substr(0, 200) + "'; " +
                             (merge.left < 0 || merge.right < 0 ? "" : "their merge is ") +
                             "not in the vocabulary");
      }
      const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(merge.left)} << 32 |
                                 static_cast<std::uint32_t>(merge.right);
      if (!pairs.insert(pair).second) object.fail(key, "occurs twice");
      if (model().byte_tokens[0] >= 0 && (byte_of(left) || byte_of(right))) {
        unsupported(path_, "model." + key, left + " " + right, "merges without byte tokens");
      }
      const bool reachable = !model().pieces[static_cast<std::size_t>(merge.left)].empty() &&
                             !model().pieces[static_cast<std::size_t>(merge.right)].empty();
      if (reachable) model().merges.push_back(merge);
    }
  }

  /// "a b" or ["a", "b"].
  std::pair<std::string, std::string> parts_of(JsonObject& object, const std::string& key,
                                               const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      object.fail(key, "is " + merge.dump().substr(0, 200) + "; expected two tokens");
    }
    return {line.substr(0, space), line.substr(space + 1)};
  }

  void read_added_tokens() {
    const json& list = part("added_tokens");
    if (list.is_null()) return;
    if (!list.is_array()) root_.fail("added_tokens", "is not an array");
    std::unordered_set<std::string> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = "added_tokens[" + std::to_string(i) + "]";
      JsonObject object(list[i], path_, key);
      AddedToken token;
      token.id = checked_id(object, "id", object.any("id"));
      token.text = object.text("content");
      token.special = object.boolean("special");
      token.normalized = object.boolean("normalized");
      token.single_word = object.boolean("single_word");
      token.lstrip = object.boolean("lstrip");
      token.rstrip = object.boolean("rstrip");
      object.refuse_others();
      if (token.text.empty()) object.fail("content", "is empty");
      if (!seen.insert(token.text).second) {
        object.fail("content", "is '" + token.text + "' a second time");
      }
      add_token(object, token, key);
    }
  }

  void add_token(JsonObject& object, const AddedToken& token, const std::string& key) {
    const std::int32_t known = id_of(token.text);
    if (known >= 0 && known != token.id) {
      object.fail("id", "is " + std::to_string(token.id) + ", but '" + token.text + "' is " +
                            std::to_string(known) + " in the vocabulary");
    }
    if (known < 0) place_token(token.id, token.text, key);
    vocabulary().texts[static_cast<std::size_t>(token.id)] = token.text;
    vocabulary().added.push_back(as_searched(token, vocabulary().normalizer));
  }

  std::int32_t id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }
  bool is_token(std::int32_t id) const {
    return static_cast<std::size_t>(id) < names_.size() &&
           !names_[static_cast<std::size_t>(id)].empty();
  }

  std::string path_;
  json json_;
  JsonObject root_;
  const ByteAlphabet alphabet_;
  PreTokenizerJson split_;
  DecoderJson decoder_;
  std::unordered_map<std::string, std::int32_t> ids_;  // of the model's vocabulary
  std::vector<std::string> names_;                     // by id, as in the file
  std::uint64_t id_limit_ = 0;  // vocabularies have holes, but not more holes than tokens
  TokenizerJson out_;
};

}  // namespace

AddedToken as_searched(AddedToken token, const std::vector<NormalizerStep>& normalizer) {
  if (!token.normalized) return token;
  NormalizerBuffers buffers;
  token.text = std::string(normalize(token.text, normalizer, buffers));
  return token;
}

TokenizerJson read_tokenizer_json(const std::string& path) { return Reader(path).read(); }

}  // namespace dgap::engine
