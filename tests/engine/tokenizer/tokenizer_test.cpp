#include "engine/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::engine {
namespace {

using testing::byte_as_text;
using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::TemporaryFile;
using testing::ToyTokenizer;

std::unique_ptr<Tokenizer> open(const GgufWriter& writer) {
  const TemporaryFile file(writer.finish());
  return open_tokenizer(file.path(), "auto");
}

std::unique_ptr<Tokenizer> toy(const std::string& pretokenizer = "smollm") {
  GgufWriter writer;
  ToyTokenizer tokenizer;
  tokenizer.pretokenizer = pretokenizer;
  tokenizer.write(writer, tokenizer.size());
  return open(writer);
}

std::int32_t byte_id(char c) { return 3 + static_cast<unsigned char>(c); }
std::int32_t merge_id(std::size_t rank) { return static_cast<std::int32_t>(3 + 256 + rank); }

/// Any Unicode text: ASCII, spaces, Latin, CJK, emoji, digits, combining marks.
std::string random_text(base::Random& random, std::size_t characters) {
  std::string text;
  const auto append = [&](std::uint32_t c) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0 | c >> 12);
      text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      text += static_cast<char>(0xf0 | c >> 18);
      text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
      text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
      text += static_cast<char>(0x80 | (c & 0x3f));
    }
  };
  for (std::size_t i = 0; i < characters; ++i) {
    switch (random.below(5)) {
      case 0:
        append(static_cast<std::uint32_t>(random.below(0x80)));
        break;
      case 1:
        append(static_cast<std::uint32_t>("the and\n  of 12"[random.below(14)]));
        break;
      case 2:
        append(static_cast<std::uint32_t>(random.below(0x800)));
        break;
      case 3:
        append(static_cast<std::uint32_t>(random.below(0xd800)));
        break;
      default:
        append(static_cast<std::uint32_t>(0xe000 + random.below(0x110000 - 0xe000)));
        break;
    }
  }
  return text;
}

TEST(Tokenizer, EncodesByMerges) {
  const auto tokenizer = toy();
  EXPECT_EQ(tokenizer->vocab_size(), ToyTokenizer().size());
  // Merges 0 " t", 1 "he", 2 " the", 17 " o", 18 " of".
  EXPECT_THAT(tokenizer->encode("the of the"),
              ElementsAre(byte_id('t'), merge_id(1), merge_id(18), merge_id(2)));
  EXPECT_THAT(tokenizer->encode("\xc3\xa9"), ElementsAre(merge_id(33)));
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(Tokenizer, DecodeIsTheInverseOfEncode) {
  base::Random random(1);
  for (const char* tag : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    const auto tokenizer = toy(tag);
    for (int round = 0; round < 200; ++round) {
      const std::string text = random_text(random, random.below(200));
      std::string buffer;  // vocabularies with the tag qwen2 are of normalised text
      const std::string expected(tag == std::string("qwen2") ? to_nfc(text, buffer) : text);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), expected);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, true)), expected);
    }
  }
}

TEST(Tokenizer, TokensDecodedOneByOneJoinToTheText) {
  const auto tokenizer = toy();
  const std::string text = "\xf0\x9f\x99\x82\xf0\x9f\x99\x82 caf\xc3\xa9";
  std::string joined;
  for (const std::int32_t id : tokenizer->encode(text))
    joined += tokenizer->decode(std::span(&id, 1));
  EXPECT_EQ(joined, text);
}

TEST(Tokenizer, SpecialTokensOnlyWhereAskedFor) {
  const auto tokenizer = toy();
  const std::string prompt = "<|im_start|>the<|im_end|>";
  const std::vector<std::int32_t> parsed = tokenizer->encode(prompt, true);
  EXPECT_THAT(parsed, ElementsAre(1, byte_id('t'), merge_id(1), 2));
  EXPECT_EQ(tokenizer->decode(parsed), prompt);
  const std::vector<std::int32_t> plain = tokenizer->encode(prompt);
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), [](std::int32_t id) { return id < 3; }), 0);
  EXPECT_EQ(tokenizer->decode(plain), prompt);
}

TEST(Tokenizer, LongestSpecialTokenWins) {
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "gpt-2");
  writer.strings("tokenizer.ggml.tokens", {"x", "<s>", "<s>x", "<s"});
  writer.integers("tokenizer.ggml.token_type", {1, 3, 4, 5});
  writer.strings("tokenizer.ggml.merges", {});
  const auto tokenizer = open(writer);
  EXPECT_THAT(tokenizer->encode("x<s>x<s>", true), ElementsAre(0, 2, 1));
}

TEST(Tokenizer, RefusesInvalidUtf8AndUnknownIds) {
  const auto tokenizer = toy();
  const std::pair<std::string, int> texts[] = {{"ab\xa3", 2},
                                               {"\xed\xa0\x80", 0},
                                               {"abc\xf0\x9f\x99", 3},
                                               {"\xc0\xaf", 0},
                                               {"x\xf4\x90\x80\x80", 1}};
  for (const auto& [text, offset] : texts) {
    try {
      tokenizer->encode(text);
      ADD_FAILURE() << offset;
    } catch (const base::IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("not valid UTF-8 at byte " + std::to_string(offset)));
    }
  }
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(tokenizer->vocab_size())}) {
    EXPECT_THROW(tokenizer->decode(std::span(&id, 1)), base::UsageError);
  }
}

TEST(Tokenizer, SaysWhichByteHasNoToken) {
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "gpt-2");
  writer.strings("tokenizer.ggml.tokens", {"a", "b", "<s>"});
  writer.integers("tokenizer.ggml.token_type", {1, 1, 3});
  writer.strings("tokenizer.ggml.merges", {});
  const auto tokenizer = open(writer);
  EXPECT_THAT(tokenizer->encode("abba"), ElementsAre(0, 1, 1, 0));
  try {
    tokenizer->encode("a<s>abz", true);
    ADD_FAILURE();
  } catch (const base::IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the byte 122 at offset 6 has no token"));
  }
}

/// The toy tokenizer's metadata with add_bos_token as given (nothing: absent).
std::unique_ptr<Tokenizer> with_bos(const char* pretokenizer, std::optional<bool> add_bos,
                                    std::optional<std::uint32_t> bos = 0) {
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", pretokenizer);
  writer.strings("tokenizer.ggml.tokens", {"a", "b"});
  writer.strings("tokenizer.ggml.merges", {});
  writer.u32("tokenizer.ggml.eos_token_id", 1);
  if (bos) writer.u32("tokenizer.ggml.bos_token_id", *bos);
  if (add_bos) writer.boolean("tokenizer.ggml.add_bos_token", *add_bos);
  return open(writer);
}

TEST(Tokenizer, BosOnlyWhereTheModelWantsIt) {
  EXPECT_EQ(with_bos("smollm", true)->bos(), 0);
  EXPECT_EQ(with_bos("smollm", false)->bos(), -1);
  EXPECT_EQ(with_bos("smollm", std::nullopt)->bos(), -1);
  EXPECT_EQ(with_bos("llama-bpe", std::nullopt)->bos(), 0);  // Llama 3 files often lack the key
  EXPECT_EQ(with_bos("llama-bpe", false)->bos(), -1);
  EXPECT_EQ(with_bos("smollm", true)->eos(), 1);
  EXPECT_THROW(with_bos("smollm", true, std::nullopt), base::IoError);
  EXPECT_THROW(with_bos("smollm", true, 2), base::IoError);
}

TEST(Tokenizer, HashCoversEverything) {
  const std::string whole = toy()->sha256();
  EXPECT_EQ(whole.size(), 64u);
  EXPECT_EQ(toy()->sha256(), whole);
  EXPECT_NE(toy("gpt-2")->sha256(), whole);
  GgufWriter writer;
  ToyTokenizer other;
  std::swap(other.merges[0], other.merges[1]);
  other.write(writer, other.size());
  EXPECT_NE(open(writer)->sha256(), whole);
  EXPECT_NE(with_bos("smollm", true)->sha256(), with_bos("smollm", false)->sha256());
}

TEST(Tokenizer, RefusesDamagedVocabularies) {
  struct Parts {
    std::string model = "gpt2", pretokenizer = "smollm";
    std::vector<std::string> tokens{"a", "b", "ab"}, merges{"a b"};
    std::vector<std::int32_t> types{1, 1, 1};
    bool has_pretokenizer = true, prefix = false;
  };
  const auto error = [](base::ExitCode code,
                        const std::function<void(Parts&)>& change) -> std::string {
    Parts parts;
    change(parts);
    GgufWriter writer;
    writer.string("tokenizer.ggml.model", parts.model);
    if (parts.has_pretokenizer) writer.string("tokenizer.ggml.pre", parts.pretokenizer);
    writer.strings("tokenizer.ggml.tokens", parts.tokens);
    writer.integers("tokenizer.ggml.token_type", parts.types);
    writer.strings("tokenizer.ggml.merges", parts.merges);
    if (parts.prefix) writer.boolean("tokenizer.ggml.add_space_prefix", true);
    try {
      open(writer);
    } catch (const base::Error& caught) {
      EXPECT_EQ(caught.code(), code) << caught.what();
      EXPECT_THAT(caught.what(), HasSubstr(".gguf: "));
      return caught.what();
    }
    return "no error";
  };
  using base::ExitCode;
  EXPECT_EQ(error(ExitCode::io, [](Parts&) {}), "no error");
  EXPECT_THAT(error(ExitCode::usage, [](Parts& p) { p.model = "bert"; }),
              HasSubstr("'tokenizer.ggml.model' is 'bert'"));
  EXPECT_THAT(error(ExitCode::usage, [](Parts& p) { p.pretokenizer = "dbrx"; }),
              HasSubstr("tag 'dbrx' is unknown"));
  EXPECT_THAT(error(ExitCode::usage, [](Parts& p) { p.has_pretokenizer = false; }),
              HasSubstr("'tokenizer.ggml.pre' is missing"));
  EXPECT_THAT(error(ExitCode::usage, [](Parts& p) { p.prefix = true; }),
              HasSubstr("'tokenizer.ggml.add_space_prefix' is true"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens = {}, p.types = {}; }),
              HasSubstr("is empty"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens[1] = "a"; }),
              HasSubstr("token 1 'a' is also token 0"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens[1] = ""; }),
              HasSubstr("token 1 '' is empty"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens[1] = "b b"; }),
              HasSubstr("not written in the byte-level alphabet"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens[1] = "\xc5\x84"; }),
              HasSubstr("alphabet"));  // U+0144
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.tokens[1] = "\xc4"; }), HasSubstr("alphabet"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.types[2] = 7; }),
              HasSubstr("token 2 'ab' has type 7"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.types = {1}; }), HasSubstr("has 1 elements"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.merges = {"a c"}; }),
              HasSubstr("merge 0 'a c' names a token"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.merges = {"b a"}; }),
              HasSubstr("as its result"));
  EXPECT_THAT(error(ExitCode::io, [](Parts& p) { p.types[2] = 3; }), HasSubstr("merge 0 'a b'"));
  EXPECT_THAT(error(ExitCode::io,
                    [](Parts& p) {
                      p.merges = {"a b", "a b"};
                    }),
              HasSubstr("merge 1 'a b' occurs twice"));
  for (const char* line : {"ab", "", "a  b", "a b "}) {
    EXPECT_THAT(error(ExitCode::io, [&](Parts& p) { p.merges = {line}; }),
                HasSubstr("is not two tokens"));
  }
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double encode_seconds(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double begin = thread_seconds();
    tokenizer.encode(text);
    best = std::min(best, thread_seconds() - begin);
  }
  return best;
}

TEST(Tokenizer, OneLongPieceTakesLinearTime) {
  const auto tokenizer = toy();
  for (const char* unit : {"a", "in", "th", "inand", " "}) {
    std::string text;
    while (text.size() < 50000) text += unit;
    // The processor's caches and other programs blur a measurement: the best of three counts.
    double ratio = 1e9;
    for (int attempt = 0; attempt < 3 && ratio >= 3.0; ++attempt) {
      const double once = encode_seconds(*tokenizer, text);
      ratio = std::min(ratio, encode_seconds(*tokenizer, text + text) / once);
    }
    EXPECT_LT(ratio, 3.0) << unit;
  }
}

TEST(Tokenizer, TwelveMegabytes) {
  const auto tokenizer = toy();
  std::string text;
  while (text.size() < 12'000'000)
    text += "In 1813 the heir, and others of his kind, went to the sea;\nit was cold. ";
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  EXPECT_GT(ids.size(), std::size_t{1} << 20);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(Tokenizer, ManyThreadsAtOnce) {
  const auto tokenizer = toy();
  base::Random random(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 8; ++i) texts.push_back(random_text(random, 2000));
  std::vector<std::vector<std::int32_t>> together(texts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] { together[i] = tokenizer->encode(texts[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(together[i], tokenizer->encode(texts[i]));
}

TEST(OpenTokenizer, ChoosesTheFormat) {
  const TemporaryFile file(testing::tiny_gguf());
  EXPECT_NO_THROW(open_tokenizer(file.path(), "gguf"));
  EXPECT_THROW(open_tokenizer(file.path(), "huggingface"), base::UsageError);
  EXPECT_THROW(open_tokenizer("/nonexistent/model.gguf", "auto"), base::IoError);
}

}  // namespace
}  // namespace dgap::engine
