// Tokenizers of Hugging Face folders: tokenizer.json, tokenizer.model and what lies beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/random.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"
#include "tests/engine/tokenizer/toy_folder.hpp"

namespace dgap::engine {
namespace {

using base::ExitCode;
using testing::added_token;
using testing::byte_level_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::json;
using testing::spaced_json;
using testing::ToyFolder;
using testing::ToyPieces;
using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> open(const json& file, const json& config = json::object()) {
  return ToyFolder().write("tokenizer.json", file).write("tokenizer_config.json", config).open();
}

std::string joined(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text = tokenizer.decode(std::span(ids).first(std::min<std::size_t>(ids.size(), 1)));
  for (std::size_t i = 1; i < ids.size(); ++i) text += tokenizer.decode_next(std::span(&ids[i], 1));
  return text;
}

TEST(TokenizerJson, ByteLevel) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_EQ(tokenizer->vocab_size(), 11);
  EXPECT_THAT(tokenizer->encode("ab abc"), ElementsAre(5, 3, 5, 2));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab abc")), "ab abc");
  json pairs = byte_level_json();
  pairs["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"\xc4\xa0", "a"})});
  EXPECT_EQ(open(pairs)->sha256(), tokenizer->sha256());
}

// The texts of special tokens in books are text (and begin no sequence a second time).
TEST(TokenizerJson, SpecialTokensOnlyWhereAskedFor) {
  const auto tokenizer = open(byte_level_json());
  EXPECT_THAT(tokenizer->encode("<s>ab"), ElementsAre(7, 8, 10, 5));
  EXPECT_THAT(tokenizer->encode("<s>ab", true), ElementsAre(9, 5));
  json file = byte_level_json();
  file["added_tokens"][0]["special"] = false;
  EXPECT_THAT(open(file)->encode("<s>ab"), ElementsAre(9, 5));
}

// Lists are those of Hugging Face's tokenizers 0.23.
TEST(TokenizerJson, AddedTokensTakeSpaces) {
  json file = byte_level_json();
  file["model"]["vocab"] = {{"\xc4\xa0", 0}, {"x", 1}, {"\xc4\xa0\xc4\xa0", 2}, {"\xc4\xa0x", 3}};
  file["model"]["merges"] = {"\xc4\xa0 \xc4\xa0", "\xc4\xa0 x"};
  const Ids expected[] = {{2, 4, 0, 3}, {2, 4, 1}, {4, 0, 3}, {4, 1}};
  for (int i = 0; i < 4; ++i) {
    json token = added_token(4, "<s>");
    token["lstrip"] = i / 2 == 1;
    token["rstrip"] = i % 2 == 1;
    file["added_tokens"] = {token};
    EXPECT_EQ(open(file)->encode("  <s>  x", true), expected[i]) << i;
  }
}

TEST(TokenizerJson, AddedTokensBesideWords) {
  json file = byte_level_json();
  file["added_tokens"][0]["single_word"] = true;
  const auto tokenizer = open(file);
  EXPECT_THAT(tokenizer->encode("a<s> a", true), ElementsAre(0, 7, 8, 10, 6));
  EXPECT_THAT(tokenizer->encode("<s> a", true), ElementsAre(9, 6));
}

TEST(TokenizerJson, Nfc) {
  json file = byte_level_json();
  // U+00E9 is c3 a9, in the alphabet U+00C3 U+00A9; e and U+0301 (cc 81) are U+00CC U+0123.
  file["model"]["vocab"] = {{"\xc3\x83", 0}, {"\xc2\xa9", 1}, {"e", 2},
                            {"\xc3\x8c", 3}, {"\xc4\xa3", 4}, {"\xc3\x83\xc2\xa9", 5}};
  file["model"]["merges"] = {"\xc3\x83 \xc2\xa9"};
  EXPECT_THAT(open(file)->encode("\xc3\xa9"), ElementsAre(5));
  EXPECT_THAT(open(file)->encode("e\xcc\x81"), ElementsAre(2, 3, 4));
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(open(file)->encode("\xc3\xa9"), ElementsAre(5));
  EXPECT_THAT(open(file)->encode("e\xcc\x81"), ElementsAre(5));
}

TEST(TokenizerJson, IgnoreMerges) {
  json file = byte_level_json();
  file["model"]["vocab"]["abc"] = 11;  // no merge leads to it
  EXPECT_THAT(open(file)->encode("abc"), ElementsAre(5, 2));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(open(file)->encode("abc"), ElementsAre(11));
}

// A pattern that is stored as text is that text, though it was meant as an expression.
TEST(TokenizerJson, LiteralPatternsStayLiteral) {
  json file = byte_level_json();
  json last = file["pre_tokenizer"];
  last["use_regex"] = false;
  const auto with = [&](const json& pattern) {
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
          last}}};
    return open(file)->encode("cab");
  };
  EXPECT_THAT(with({{"Regex", "ca|b"}}), ElementsAre(2, 0, 1));
  EXPECT_THAT(with({{"String", "ca|b"}}), ElementsAre(2, 5));
  EXPECT_THAT(with({{"String", "ca"}}), ElementsAre(2, 0, 1));
}

TEST(TokenizerJson, SpacesAndBytes) {
  const auto tokenizer = open(spaced_json());
  EXPECT_THAT(tokenizer->encode("a ab"), ElementsAre(262, 262, 261));
  EXPECT_THAT(tokenizer->encode("b\n"), ElementsAre(259, 261, 3 + '\n'));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a ab")), "a ab");
  EXPECT_THAT(tokenizer->encode("a<s>b", true), ElementsAre(262, 1, 259, 261));
  EXPECT_TRUE(tokenizer->encode("").empty());
}

// Halves of characters are no reason to lose them.
TEST(TokenizerJson, TokensDecodedOneByOneJoinToTheText) {
  const auto tokenizer = open(spaced_json());
  const std::string text = "\xf0\x9f\x99\x82\xf0\x9f\x99\x82 a  b";
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(joined(*tokenizer, ids), text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->decode(std::span(ids).first(4)), "\xf0\x9f\x99");  // mark and three bytes
}

TEST(TokenizerJson, BeginOfSequence) {
  EXPECT_EQ(open(spaced_json())->bos(), 1);  // the template's
  EXPECT_EQ(open(spaced_json(), {{"add_bos_token", false}})->bos(), -1);
  EXPECT_EQ(open(spaced_json(), {{"add_bos_token", nullptr}, {"bos_token", "</s>"}})->bos(), 1);
  EXPECT_EQ(open(byte_level_json())->bos(), -1);
  EXPECT_EQ(open(byte_level_json(), {{"bos_token", "<s>"}})->bos(), -1);  // GPT-2 has one, unused
  const json asked = {{"add_bos_token", true}, {"bos_token", {{"content", "<s>"}}}};
  EXPECT_EQ(open(byte_level_json(), asked)->bos(), 9);
  // encode itself puts it nowhere, whatever the text begins with.
  for (const char* text : {"", "a", "<s>a"}) {
    const Ids ids = open(spaced_json())->encode(text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 0) << text;
  }
}

TEST(TokenizerJson, EndOfSequence) {
  EXPECT_EQ(open(spaced_json())->eos(), -1);
  EXPECT_EQ(open(spaced_json(), {{"eos_token", "</s>"}})->eos(), 2);
  ToyFolder folder;
  folder.write("tokenizer.json", spaced_json()).write("config.json", json{{"eos_token_id", 1}});
  EXPECT_EQ(folder.open()->eos(), 1);
  folder.write("generation_config.json", json{{"eos_token_id", {2, 1}}});
  EXPECT_EQ(folder.open()->eos(), 2);
  folder.write("generation_config.json", json{{"eos_token_id", 264}});
  EXPECT_THAT(folder.error(ExitCode::io), HasSubstr("eos_token_id: is 264"));
}

TEST(TokenizerJson, AddedTokensOfTheConfig) {
  json token = added_token(0, "[tool]", false);
  token.erase("id");
  const auto tokenizer = open(byte_level_json(), {{"added_tokens_decoder", {{"12", token}}}});
  EXPECT_EQ(tokenizer->vocab_size(), 13);
  EXPECT_THAT(tokenizer->encode("a[tool]"), ElementsAre(0, 12));
  EXPECT_EQ(open(byte_level_json(), {{"added_tokens_decoder",
                                      {{"9",
                                        [] {
                                          json same = added_token(9, "<s>");
                                          same.erase("id");
                                          return same;
                                        }()}}}})
                ->sha256(),
            open(byte_level_json())->sha256());
  ToyFolder folder;
  folder.write("tokenizer.json", byte_level_json());
  for (const char* id : {"3", "x", "-1", "99999999", "999999999999"}) {
    folder.write("tokenizer_config.json", json{{"added_tokens_decoder", {{id, token}}}});
    EXPECT_THAT(folder.error(ExitCode::io), HasSubstr("added_tokens_decoder.")) << id;
  }
}

/// What opening gives after a change to `file`.
std::string error_of(json file, ExitCode code, const std::function<void(json&)>& change) {
  change(file);
  ToyFolder folder;
  folder.write("tokenizer.json", file);
  return folder.error(code);
}

TEST(TokenizerJson, NothingIsSkippedInSilence) {
  const auto refused = [](const char* pointer, const json& value) {
    return error_of(byte_level_json(), ExitCode::usage,
                    [&](json& file) { file[json::json_pointer(pointer)] = value; });
  };
  const json lower = {{"type", "Lowercase"}};
  EXPECT_THAT(refused("/version", "2.0"), HasSubstr("tokenizer.json: version is '2.0'"));
  EXPECT_THAT(refused("/normalizer", lower), HasSubstr("normalizer.type is 'Lowercase'"));
  EXPECT_THAT(refused("/normalizer", {{"type", "Sequence"}, {"normalizers", {lower}}}),
              HasSubstr("normalizer.normalizers[0].type is 'Lowercase'"));
  EXPECT_THAT(refused("/pre_tokenizer", {{"type", "Whitespace"}}),
              HasSubstr("pre_tokenizer.type is 'Whitespace'"));
  EXPECT_THAT(refused("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post_processor.type is 'BertProcessing'"));
  EXPECT_THAT(refused("/decoder", {{"type", "WordPiece"}}), HasSubstr("decoder.type"));
  EXPECT_THAT(refused("/decoder", nullptr), HasSubstr("decoder is 'null'"));
  EXPECT_THAT(refused("/decoder", {{"type", "Fuse"}}), HasSubstr("decoder is 'not ByteLevel'"));
  EXPECT_THAT(refused("/model/type", "Unigram"), HasSubstr("model.type is 'Unigram'"));
  EXPECT_THAT(refused("/model/dropout", 0.1), HasSubstr("model.dropout is '0.1'"));
  EXPECT_THAT(refused("/model/end_of_word_suffix", "</w>"),
              HasSubstr("model.end_of_word_suffix is '\"</w>\"'"));
  const auto unknown = [](const char* pointer) {
    return error_of(byte_level_json(), ExitCode::io,
                    [&](json& file) { file[json::json_pointer(pointer)] = 1; });
  };
  EXPECT_THAT(unknown("/extra"), HasSubstr("extra: is unknown"));
  EXPECT_THAT(unknown("/model/extra"), HasSubstr("model.extra: is unknown"));
  EXPECT_THAT(unknown("/pre_tokenizer/extra"), HasSubstr("pre_tokenizer.extra: is unknown"));
  EXPECT_THAT(unknown("/decoder/extra"), HasSubstr("decoder.extra: is unknown"));
  EXPECT_THAT(unknown("/added_tokens/0/extra"), HasSubstr("added_tokens[0].extra: is unknown"));
}

TEST(TokenizerJson, RefusesContradictions) {
  const auto refused = [](const std::function<void(json&)>& change) {
    return error_of(byte_level_json(), ExitCode::io, change);
  };
  const auto model = [&](const char* key, const json& value) {
    return refused([&](json& file) { file["model"][key] = value; });
  };
  EXPECT_THAT(refused([](json& f) { f["model"]["vocab"]["q"] = 5; }),
              HasSubstr("the id 5 is also that of"));
  for (const json& id : {json(-1), json(1.5), json("5"), json(1u << 30), json(1e300)}) {
    EXPECT_THAT(refused([&](json& f) { f["model"]["vocab"]["q"] = id; }),
                HasSubstr("expected an id from 0 to"));
  }
  EXPECT_THAT(refused([](json& f) { f["model"]["vocab"][""] = 11; }), HasSubstr("empty token"));
  EXPECT_THAT(model("vocab", json::array()), HasSubstr("model.vocab"));
  EXPECT_THAT(model("merges", {"a b", "a b"}), HasSubstr("model.merges[1]: occurs twice"));
  EXPECT_THAT(model("merges", {"a q"}), HasSubstr("'a' and 'q'; not in the vocabulary"));
  EXPECT_THAT(model("merges", {"b a"}), HasSubstr("their merge is not in the vocabulary"));
  for (const json& merge : {json("ab"), json("a  b"), json({"a"}), json({"a", 1}), json(3)}) {
    EXPECT_THAT(model("merges", json::array({merge})), HasSubstr("expected two tokens"));
  }
  EXPECT_THAT(model("merges", 1), HasSubstr("is not an array"));
  EXPECT_THAT(model("unk_token", "<unk>"), HasSubstr("model.unk_token: is not in the vocabulary"));
  EXPECT_THAT(model("ignore_merges", 1), HasSubstr("expected true or false"));
  EXPECT_THAT(refused([](json& f) { f["added_tokens"][0]["id"] = 5; }),
              HasSubstr("the id 5 is also that of 'ab'"));
  EXPECT_THAT(refused([](json& f) { f["added_tokens"].push_back(added_token(3, "a")); }),
              HasSubstr("'a' is 0 in the vocabulary"));
  EXPECT_THAT(refused([](json& f) { f["added_tokens"].push_back(added_token(12, "<s>")); }),
              HasSubstr("a second time"));
  EXPECT_THAT(refused([](json& f) { f["added_tokens"][0]["content"] = ""; }),
              HasSubstr("added_tokens[0].content: is empty"));
  EXPECT_THAT(
      error_of(spaced_json(), ExitCode::io, [](json& f) { f["model"]["vocab"].erase("<0x0A>"); }),
      HasSubstr("255 of the 256 tokens"));
  EXPECT_THAT(
      error_of(spaced_json(), ExitCode::io,
               [](json& f) { f["post_processor"]["special_tokens"]["<s>"]["ids"] = {999}; }),
      HasSubstr("names the token 999"));
  ToyFolder folder;
  folder.write("tokenizer.json", std::string(R"({"version": "1.0", "version": "1.0"})"));
  EXPECT_THAT(folder.error(ExitCode::io), HasSubstr("has the key \"version\" twice"));
  EXPECT_THAT(ToyFolder().error(ExitCode::io), HasSubstr("neither tokenizer.json nor"));
  folder.write("tokenizer.json", byte_level_json())
      .write("tokenizer_config.json", json{{"add_prefix_space", true}});
  EXPECT_THAT(folder.error(ExitCode::usage), HasSubstr("add_prefix_space is true"));
}

TEST(TokenizerJson, RefusesPatternsThatMayMeanSomethingElse) {
  const auto refused = [](const char* pattern) {
    return error_of(byte_level_json(), ExitCode::usage, [&](json& file) {
      file["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {{{"type", "Split"},
                                  {"pattern", {{"Regex", pattern}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}},
                                 byte_level_json()["pre_tokenizer"]}}};
    });
  };
  EXPECT_EQ(refused(R"([^\r\n\p{L}\p{N}]?\p{L}++|\p{Han}{1,3}|(?<!a)(?>b)\s\S\d$)"), "");
  for (const char* pattern :
       {R"(\h)", R"(\w)", R"(\b)", R"(\1)", R"((?i)a)", R"((?<n>a))", R"(a{,3})", R"(a{2}+)",
        R"([a[b]])", R"([a&&b])", R"([\S])", R"([]a])", R"(\p{^L})", R"((?i:ss))", R"((?i:Fi))",
        "(?i:\xc3\x9f)", R"(a])", R"((*ANY)a)", "a\\"}) {
    EXPECT_THAT(refused(pattern), HasSubstr("which is not supported")) << pattern;
  }
  for (const char* pattern : {"(a", "a)", "[a", "*a", R"(\p{Klingon})", "a{3,2}"}) {
    EXPECT_THAT(refused(pattern), HasSubstr("the pattern '")) << pattern;
  }
  for (const char* pattern : {"a*", "a|", "(?!b)", "$"}) {
    EXPECT_THAT(refused(pattern), HasSubstr("can match nothing at all")) << pattern;
  }
}

// Exponential patterns end with an error, not with the machine.
TEST(TokenizerJson, PatternsThatExplode) {
  json file = byte_level_json();
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", "(a+a?)+(a+)+xb"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             file["pre_tokenizer"]}}};
  EXPECT_THROW(open(file)->encode(std::string(200, 'a') + "b"), base::FailedError);
}

TEST(TokenizerJson, HashCoversEverything) {
  std::set<std::string> hashes{open(byte_level_json())->sha256()};
  std::size_t changes = 0;
  const auto differs = [&](const std::function<void(json&)>& change, const json& config) {
    json file = byte_level_json();
    change(file);
    hashes.insert(open(file, config)->sha256());
    EXPECT_EQ(hashes.size(), ++changes + 1);
  };
  const auto set = [&](const char* pointer, const json& value) {
    differs([&](json& file) { file[json::json_pointer(pointer)] = value; }, json::object());
  };
  set("/model/vocab/y", 11);
  set("/model/merges", {"\xc4\xa0 a", "a b"});
  set("/model/ignore_merges", true);
  set("/model/unk_token", "x");
  set("/normalizer", {{"type", "NFC"}});
  set("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}});
  set("/pre_tokenizer/add_prefix_space", true);
  set("/pre_tokenizer/use_regex", false);
  for (const char* flag : {"special", "normalized", "single_word", "lstrip", "rstrip"}) {
    const std::string pointer = std::string("/added_tokens/0/") + flag;
    set(pointer.c_str(), !byte_level_json()["added_tokens"][0][flag].get<bool>());
  }
  set("/added_tokens/0/content", "<t>");
  differs([](json&) {}, {{"eos_token", "x"}});
  differs([](json&) {}, {{"add_bos_token", true}, {"bos_token", "<s>"}});
}

// Whatever the bytes of the file are, it opens and encodes, or is refused with an error.
void damage(const char* name, const std::string& whole) {
  base::Random random(6);
  ToyFolder folder;
  int opened = 0, refused = 0;
  for (int round = 0; round < 240; ++round) {
    std::string bytes = whole;
    const std::size_t at = random.below(bytes.size());
    if (round % 3 == 0) {
      bytes.resize(at);
    } else {
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
    }
    folder.write(name, bytes);
    try {
      const auto tokenizer = folder.open();
      for (const bool special : {false, true})
        tokenizer->decode(tokenizer->encode("a ab<s> cab", special));
      ++opened;
    } catch (const base::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST(TokenizerJson, DamageNeverCrashes) {
  damage("tokenizer.json", spaced_json().dump());
  damage("tokenizer.json", byte_level_json().dump());
}

TEST(SentencePiece, DamageNeverCrashes) { damage("tokenizer.model", ToyPieces().bytes()); }

TEST(SentencePiece, SameIdsAsTokenizerJson) {
  ToyFolder folder;
  const auto pieces = folder.write("tokenizer.model", ToyPieces().bytes()).open();
  const auto reference = open(spaced_json());
  EXPECT_EQ(pieces->bos(), 1);
  EXPECT_EQ(pieces->eos(), 2);
  for (const char* text : {"", " ", "a ab", "b\n a", "  caf\xc3\xa9 ab", "<s>a", "abab  aab"}) {
    for (const bool special : {false, true}) {
      const Ids ids = pieces->encode(text, special);
      EXPECT_EQ(ids, reference->encode(text, special)) << text;
      EXPECT_EQ(pieces->decode(ids), reference->decode(ids)) << text;
    }
  }
  // tokenizer.json is what the model's users run.
  folder.write("tokenizer.json", byte_level_json());
  EXPECT_EQ(folder.open()->vocab_size(), 11);
}

TEST(SentencePiece, UserDefinedAndUnknown) {
  ToyPieces toy;
  toy.pieces.resize(259 + 5);
  toy.pieces.push_back({"[ab]", 0.0f, 4});
  const auto tokenizer = ToyFolder().write("tokenizer.model", toy.bytes()).open();
  EXPECT_THAT(tokenizer->encode("a[ab]b"), ElementsAre(262, 264, 261));
  for (auto& piece : toy.pieces) {
    if (piece.type == 6) piece = {"[" + piece.text, 0.0f, 3};
  }
  const auto without_bytes = ToyFolder().write("tokenizer.model", toy.bytes()).open();
  EXPECT_THAT(without_bytes->encode("ac\xc3\xa9"
                                    "b"),
              ElementsAre(262, 0, 261));  // one unknown
}

TEST(SentencePiece, RefusesWhatItDoesNotKnow) {
  const auto refused = [](ExitCode code, const std::function<void(ToyPieces&)>& change) {
    ToyPieces toy;
    change(toy);
    return ToyFolder().write("tokenizer.model", toy.bytes()).error(code);
  };
  EXPECT_THAT(refused(ExitCode::usage, [](auto& t) { t.model_type = 1; }),
              HasSubstr("tokenizer.model: trainer_spec.model_type is 1"));
  EXPECT_THAT(
      refused(ExitCode::usage, [](auto& t) { t.normalizer += testing::proto::bytes(2, "rules"); }),
      HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(
      refused(ExitCode::usage, [](auto& t) { t.normalizer += testing::proto::number(4, 1); }),
      HasSubstr("remove_extra_whitespaces"));
  EXPECT_THAT(refused(ExitCode::usage,
                      [](auto& t) {
                        t.pieces.push_back({"aa", 0.0f, 5});
                      }),
              HasSubstr("'aa' is of type unused"));
  EXPECT_THAT(refused(ExitCode::io,
                      [](auto& t) {
                        t.pieces.push_back({"a", 0.0f, 1});
                      }),
              HasSubstr("token 264 'a' is also token 260"));
  EXPECT_THAT(refused(ExitCode::io,
                      [](auto& t) {
                        t.pieces.push_back({"q", 0.0f, 7});
                      }),
              HasSubstr("type 7"));
  EXPECT_THAT(refused(ExitCode::io,
                      [](auto& t) {
                        t.pieces.push_back({"q", NAN, 1});
                      }),
              HasSubstr("not finite"));
  EXPECT_THAT(refused(ExitCode::io, [](auto& t) { t.pieces.resize(200); }),
              HasSubstr("197 of the 256"));
}

// The same vocabulary in a GGUF file.
TEST(SentencePiece, SameIdsFromGguf) {
  const ToyPieces toy;
  testing::GgufWriter writer;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::string scores =
      testing::GgufWriter::array_head(testing::GgufValueType::float32, toy.pieces.size());
  for (const auto& piece : toy.pieces) {
    tokens.push_back(piece.text);
    types.push_back(piece.type);
    scores += testing::bytes_of(piece.score);
  }
  writer.string("tokenizer.ggml.model", "llama");
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.integers("tokenizer.ggml.token_type", types);
  writer.value("tokenizer.ggml.scores", testing::GgufValueType::array, scores);
  writer.u32("tokenizer.ggml.bos_token_id", 1);
  writer.u32("tokenizer.ggml.eos_token_id", 2);
  const testing::TemporaryFile file(writer.finish());
  const auto gguf = open_tokenizer(file.path(), "auto");
  const auto pieces = ToyFolder().write("tokenizer.model", toy.bytes()).open();
  EXPECT_EQ(gguf->sha256(), pieces->sha256());
  EXPECT_EQ(gguf->bos(), 1);
  EXPECT_EQ(gguf->encode("a ab\n"), pieces->encode("a ab\n"));
}

}  // namespace
}  // namespace dgap::engine
