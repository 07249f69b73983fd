#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::engine {
namespace {

/// A SmolLM2 GGUF file; empty when there is none on this machine.
std::string smollm2_path() {
  if (const char* path = std::getenv("DGAP_TEST_MODEL")) return path;
  const std::string usual =
      std::string(DGAP_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(usual) ? usual : "";
}

// Ids from Hugging Face's tokenizers with the model's own tokenizer.json.
TEST(RealModel, KnownIds) {
  if (smollm2_path().empty()) GTEST_SKIP() << "set DGAP_TEST_MODEL to a SmolLM2 GGUF file";
  const auto tokenizer = open_tokenizer(smollm2_path(), "auto");
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->bos(), -1);
  EXPECT_EQ(tokenizer->eos(), 2);
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(tokenizer->encode("ied 4 \xc2\xbd months"), (Ids{885, 216, 36, 216, 16738, 2704}));
  EXPECT_EQ(tokenizer->encode("\xc3\x84pfel"), (Ids{142, 222, 96, 34520}));
}

}  // namespace
}  // namespace dgap::engine
