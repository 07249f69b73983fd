#include "engine/tokenizer/huggingface_tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "engine/tokenizer/sentencepiece_model.hpp"
#include "engine/tokenizer/tokenizer_json.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::engine {
namespace {

using nlohmann::json;
using schemas::JsonObject;

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 26;
constexpr std::size_t kMaxDepth = 64;
constexpr std::int32_t kMaxAdded = 1 << 20;

class Reader {
 public:
  explicit Reader(const std::string& folder) : folder_(folder), config_(json::object()) {
    config_path_ = path("tokenizer_config.json");
    if (has("tokenizer_config.json")) config_ = parse(config_path_);
  }

  Vocabulary read() {
    if (has("tokenizer.json")) {
      TokenizerJson file = read_tokenizer_json(path("tokenizer.json"));
      vocabulary_ = std::move(file.vocabulary);
      check_prefix_space(file.prefix_space);
      add_missing_tokens();
      read_bos(file.template_bos, file.template_bos.has_value());
    } else if (has("tokenizer.model")) {
      SentencePieceModel file = read_sentencepiece_model(path("tokenizer.model"));
      vocabulary_ = std::move(file.vocabulary);
      vocabulary_.eos = file.eos;
      read_bos(file.bos < 0 ? std::nullopt : std::optional(file.bos), file.bos >= 0);
    } else {
      throw base::IoError(folder_ + ": has neither tokenizer.json nor tokenizer.model");
    }
    read_eos();
    return std::move(vocabulary_);
  }

 private:
  std::string path(const char* name) const {
    return (std::filesystem::path(folder_) / name).string();
  }
  bool has(const char* name) const { return std::filesystem::exists(path(name)); }

  static json parse(const std::string& path) {
    return schemas::parse_json_object(base::read_file(path, kMaxFile), path, kMaxDepth);
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw base::IoError(config_path_ + ": " + key + ": " + what);
  }

  /// true, false, or nothing where the key is missing or null.
  std::optional<bool> flag(const char* key) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return {};
    if (!found->is_boolean()) fail(key, "is " + found->dump() + "; expected true or false");
    return found->get<bool>();
  }

  /// The id of a token that the config names as text or as an object with `content`.
  std::optional<std::int32_t> token(const char* key) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return {};
    const json& text =
        found->is_object() && found->contains("content") ? found->at("content") : *found;
    if (!text.is_string()) fail(key, "is " + text.dump().substr(0, 200) + "; expected a token");
    const std::optional<std::int32_t> id = id_of(text.get<std::string>());
    if (!id) fail(key, "is '" + text.get<std::string>() + "', which the vocabulary lacks");
    return id;
  }

  std::optional<std::int32_t> id_of(const std::string& text) const {
    const auto& texts = vocabulary_.texts;
    for (const AddedToken& token : vocabulary_.added) {
      if (texts[static_cast<std::size_t>(token.id)] == text) return token.id;
    }
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (text.empty() || found == texts.end()) return {};
    return static_cast<std::int32_t>(found - texts.begin());
  }

  void check_prefix_space(std::optional<bool> in_tokenizer) const {
    const std::optional<bool> here = flag("add_prefix_space");
    if (!here || !in_tokenizer || *here == *in_tokenizer) return;
    throw base::UsageError(config_path_ + ": add_prefix_space is " + (*here ? "true" : "false") +
                           ", but tokenizer.json says otherwise; make them agree");
  }

  /// As transformers does: tokens of `added_tokens_decoder` that tokenizer.json has not got.
  void add_missing_tokens() {
    const auto found = config_.find("added_tokens_decoder");
    if (found == config_.end() || found->is_null()) return;
    if (!found->is_object()) fail("added_tokens_decoder", "is not an object");
    for (const auto& [key, value] : found->items()) {
      JsonObject object(value, config_path_, "added_tokens_decoder." + key);
      AddedToken added;
      added.text = object.text("content");
      added.special = object.boolean("special");
      added.normalized = object.boolean("normalized");
      added.single_word = object.boolean("single_word");
      added.lstrip = object.boolean("lstrip");
      added.rstrip = object.boolean("rstrip");
      object.refuse_others();
      if (added.text.empty()) object.fail("content", "is empty");
      added.id = number(object, key);
      add(object, added);
    }
  }

  static std::int32_t number(JsonObject& object, const std::string& key) {
    const bool digits =
        !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) object.fail("", "is not a token id");
    return std::stoi(key);
  }

  void add(JsonObject& object, const AddedToken& added) {
    const std::optional<std::int32_t> known = id_of(added.text);
    if (known && *known != added.id) {
      object.fail("content", "is '" + added.text + "', which is token " + std::to_string(*known) +
                                 " in tokenizer.json");
    }
    if (std::any_of(vocabulary_.added.begin(), vocabulary_.added.end(),
                    [&](const AddedToken& token) { return token.id == known; })) {
      return;
    }
    const auto index = static_cast<std::size_t>(added.id);
    auto& texts = vocabulary_.texts;
    if (index >= texts.size() + kMaxAdded) object.fail("", "is far beyond the other tokens");
    if (index >= texts.size()) {
      texts.resize(index + 1);
      vocabulary_.model.pieces.resize(index + 1);
    } else if (!known && !texts[index].empty()) {
      object.fail("content", "is '" + added.text + "', but the id is that of '" + texts[index] +
                                 "' in tokenizer.json");
    }
    texts[index] = added.text;
    vocabulary_.added.push_back(as_searched(added, vocabulary_.normalizer));
  }

  /// `from_tokenizer`: what the tokenizer's own file puts in front; `adds`: whether it does.
  void read_bos(std::optional<std::int32_t> from_tokenizer, bool adds) {
    if (!flag("add_bos_token").value_or(adds)) return;
    const std::optional<std::int32_t> named = token("bos_token");
    const std::optional<std::int32_t> bos = flag("add_bos_token") && named ? named : from_tokenizer;
    if (!bos) fail("add_bos_token", "is true, but bos_token is missing");
    vocabulary_.bos = *bos;
  }

  void read_eos() {
    if (const std::optional<std::int32_t> named = token("eos_token")) {
      vocabulary_.eos = *named;
      return;
    }
    for (const char* name : {"generation_config.json", "config.json"}) {
      if (vocabulary_.eos >= 0 || !has(name)) continue;
      const json values = parse(path(name));
      const auto found = values.find("eos_token_id");
      if (found == values.end() || found->is_null()) continue;
      const json& first = found->is_array() && !found->empty() ? found->at(0) : *found;
      const auto size = vocabulary_.texts.size();
      if (!first.is_number_unsigned() || first.get<std::uint64_t>() >= size) {
        throw base::IoError(path(name) + ": eos_token_id: is " + found->dump().substr(0, 200) +
                            "; the vocabulary has " + std::to_string(size) + " tokens");
      }
      vocabulary_.eos = first.get<std::int32_t>();
    }
  }

  std::string folder_, config_path_;
  json config_;
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary read_huggingface_tokenizer(const std::string& folder) { return Reader(folder).read(); }

}  // namespace dgap::engine
