#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/formats/open_weights.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

// Damaged files: whatever the bytes are, a file opens or is refused with one of the toolkit's
// errors. Run with the sanitizers, this also shows that nothing is read out of bounds.
namespace dgap::engine {
namespace {

using testing::GgufWriter;
using testing::TemporaryFile;
using testing::TinyModel;

struct SmallFile {
  std::string bytes;
  std::size_t head = 0;  // bytes before the tensors' own
};

/// One layer, and a token list of three instead of a tokenizer: the head is 2 KB.
SmallFile small_file() {
  TinyModel model;
  model.layers = 1, model.heads = 2, model.kv_heads = 1, model.head_dim = 4;
  model.hidden = 8, model.intermediate = 8, model.vocabulary = 16;
  GgufWriter writer;
  testing::write_tiny_metadata(writer, model);
  writer.strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.integers("tokenizer.ggml.token_type", {1, 1, 1});
  testing::write_tiny_tensors(writer, model);
  return {writer.finish(), writer.head_size()};
}

/// Opens the file and reads everything; true when it was accepted.
bool opens(const TemporaryFile& file) {
  try {
    const auto source = open_weights(file.path(), "auto");
    check_weights(*source);
    return true;
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()), "");
    return false;
  }
}

TEST(DamagedGguf, EveryTruncationIsRefused) {
  const SmallFile small = small_file();
  const TemporaryFile file(small.bytes);
  ASSERT_TRUE(opens(file));
  for (std::size_t size = 0; size < small.bytes.size(); ++size) {
    if (size > small.head + 64 && size % 61 != 0 && size + 8 < small.bytes.size()) continue;
    file.write(small.bytes.substr(0, size));
    EXPECT_FALSE(opens(file)) << size;
  }
}

TEST(DamagedGguf, FlippedBitsNeverCrash) {
  const SmallFile small = small_file();
  const TemporaryFile file(small.bytes);
  std::string bytes = small.bytes;
  for (std::size_t i = 0; i < small.head; ++i) {
    for (const int bit : {static_cast<int>(i % 8), 7}) {
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      file.write(bytes);
      opens(file);
      bytes[i] = small.bytes[i];
    }
  }
}

TEST(DamagedGguf, RandomBytesNeverCrash) {
  const SmallFile small = small_file();
  const TemporaryFile file(small.bytes);
  base::Random random(7);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = small.bytes;
    for (std::uint64_t n = 1 + random.below(8); n > 0; --n) {
      bytes[4 + random.below(small.head - 4)] = static_cast<char>(random.bits());
    }
    file.write(bytes);
    opens(file);
  }
}

}  // namespace
}  // namespace dgap::engine
