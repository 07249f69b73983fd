#pragma once
// Folders with tokenizers, made by the tests: tokenizer.json as an object to change, and the bytes
// of a SentencePiece model, written without the reader's code.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::testing {

using nlohmann::json;

/// A folder in the temporary one, removed with the object.
class ToyFolder {
 public:
  ToyFolder() {
    static int counter = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("dgap-tokenizer-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directory(path_);
  }
  ~ToyFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ToyFolder(const ToyFolder&) = delete;
  ToyFolder& operator=(const ToyFolder&) = delete;

  ToyFolder& write(const char* name, const std::string& bytes) {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return *this;
  }
  ToyFolder& write(const char* name, const json& value) { return write(name, value.dump()); }

  std::unique_ptr<engine::Tokenizer> open() const {
    return engine::open_tokenizer(path_.string(), "auto");
  }
  /// The message of the error that opening gives, "" for none; `code` is that of its type.
  std::string error(base::ExitCode code) const;

 private:
  std::filesystem::path path_;
};

inline json added_token(int id, const char* text, bool special = true) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// Byte-level: a, b, c, space, x and some merges; 9 is <s>.
inline json byte_level_json() {
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array({added_token(9, "<s>")})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab",
             {{"a", 0},
              {"b", 1},
              {"c", 2},
              {"\xc4\xa0", 3},
              {"x", 4},
              {"ab", 5},
              {"\xc4\xa0"
               "a",
               6},
              {"<", 7},
              {"s", 8},
              {">", 10}}},
            {"merges", {"a b", "\xc4\xa0 a"}}}}};
}

/// As Llama 2's: 0 <unk>, 1 <s>, 2 </s>, 3-258 bytes, then the space mark, a, b, mark + a, ab.
inline json spaced_json() {
  const std::string mark = "\xe2\x96\x81";
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocab[name] = 3 + byte;
  }
  int id = 259;
  for (const std::string& text :
       {mark, std::string("a"), std::string("b"), mark + "a", std::string("ab")})
    vocab[text] = id++;
  json file = byte_level_json();
  file["added_tokens"] = {added_token(0, "<unk>"), added_token(1, "<s>"), added_token(2, "</s>")};
  file["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", mark}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}};
  file["pre_tokenizer"] = nullptr;
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
  file["model"]["unk_token"] = "<unk>";
  file["model"]["byte_fallback"] = true;
  file["model"]["fuse_unk"] = true;
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = json::array({json::array({mark, "a"}), json::array({"a", "b"})});
  return file;
}

/// Protocol buffers, as far as SentencePiece's models need them.
namespace proto {
inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  return out + static_cast<char>(value);
}
inline std::string number(unsigned field, std::int64_t value) {
  return varint(field << 3) + varint(static_cast<std::uint64_t>(value));
}
inline std::string bytes(unsigned field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}
inline std::string real(unsigned field, float value) {
  std::string out(4, '\0');
  std::memcpy(out.data(), &value, 4);
  return varint(field << 3 | 5) + out;
}
}  // namespace proto

/// A SentencePiece model with the tokens of spaced_json; the scores are those of its merges.
struct ToyPieces {
  struct Piece {
    std::string text;
    float score;
    int type;
  };
  std::vector<Piece> pieces;
  std::int64_t model_type = 2;
  std::string normalizer = proto::bytes(1, "identity") + proto::number(3, 1) + proto::number(4, 0);

  ToyPieces() {
    const json vocab = spaced_json()["model"]["vocab"];
    pieces.resize(vocab.size());
    for (const auto& [text, id] : vocab.items()) {
      const auto at = id.get<std::size_t>();
      const int type = at == 0 ? 2 : at < 3 ? 3 : at < 259 ? 6 : 1;
      const float score = at == 262 ? -1.0f : at == 263 ? -2.0f : at > 258 ? -1e9f : 0.0f;
      pieces[at] = {text, score, type};
    }
  }

  std::string bytes() const {
    std::string out;
    for (const Piece& piece : pieces) {
      out += proto::bytes(1, proto::bytes(1, piece.text) + proto::real(2, piece.score) +
                                 proto::number(3, piece.type));
    }
    return out + proto::bytes(2, proto::number(3, model_type) + proto::number(41, 1)) +
           proto::bytes(3, normalizer);
  }
};

inline std::string ToyFolder::error(base::ExitCode code) const {
  try {
    open();
  } catch (const base::Error& caught) {
    return caught.code() == code ? caught.what() : "of another type: " + std::string(caught.what());
  }
  return "";
}

}  // namespace dgap::testing
