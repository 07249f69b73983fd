#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace dgap::engine {
namespace {

using testing::GgufWriter;
using testing::TemporaryFile;
using testing::ToyTokenizer;

// Whatever the bytes of the vocabulary are, it opens and encodes, or is refused with an error.
TEST(DamagedVocabulary, FlippedBitsNeverCrash) {
  GgufWriter writer;
  ToyTokenizer tokenizer;
  tokenizer.write(writer, tokenizer.size());
  const std::string whole = writer.finish();
  const TemporaryFile file(whole);
  base::Random random(9);
  int opened = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    const std::size_t at = 24 + random.below(bytes.size() - 24);
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
    file.write(bytes);
    try {
      const auto damaged = open_tokenizer(file.path(), "gguf");
      const std::string text = "the hen and others, 12 of it\n\xc3\xa9";
      EXPECT_EQ(damaged->decode(damaged->encode(text)), text);
      ++opened;
    } catch (const base::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace dgap::engine
