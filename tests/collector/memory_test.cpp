#include <gmock/gmock.h>

#include "base/error.hpp"
#include "collector/memory.hpp"
#include "tests/testing/message_of.hpp"

namespace dgap::collector {
namespace {

using ::testing::HasSubstr;

class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() {
    model_.vocab_size = 1000, model_.hidden_size = 64, model_.intermediate_size = 128;
    model_.layers = 4, model_.heads = 4, model_.kv_heads = 2, model_.head_dim = 16;
    model_.tied_embeddings = true;
    config_.model.compute = "f32";
    config_.corpus.context_lengths = {1000};
    config_.corpus.decode_steps = 24;
    for (const char* name : {"K1V1", "K4V4", "K8V8", "K2V2", "exact"})
      config_.precisions.push_back(schemas::preset(name));
  }
  MemoryNeed need(std::size_t at_once) const { return memory_need(config_, 1000, model_, at_once); }
  std::size_t at_once(double budget) {
    config_.model.memory_budget = static_cast<std::int64_t>(budget);
    return precisions_at_once(config_, 1000, model_);
  }
  engine::HyperParameters model_;
  schemas::Config config_;
};

TEST_F(MemoryTest, CachesByTheirLayout) {
  config_.precisions = {schemas::preset("uniform-K4V4")};
  config_.precisions[0].family = "custom";
  // 4 bits and, for each of 16 channels, an FP16 scale; steps lie there exactly as well.
  const double heads = 4 * 2 * 2, tokens = 1000 + 24;
  EXPECT_GE(need(1).precision_caches, heads * tokens * (8 + 2));
  EXPECT_LE(need(1).precision_caches, heads * (tokens * (8 + 4) + 2 * 16 * 24));
  EXPECT_EQ(need(1).exact_cache, heads * (1000 + 2 * 24) * 16 * 2);
  config_.precisions[0].key_before_rope = true;
  EXPECT_EQ(need(1).exact_cache, heads * (1000 + 2 * 24) * 16 * 3);
  config_.precisions[0].prefill = schemas::PrefillMode::quantized;  // starts from nothing
  EXPECT_EQ(need(1).exact_cache, heads * (1000 + 2 * 24) * 16 * 2);
}

TEST_F(MemoryTest, AnExactForkSharesThePrefix) {
  config_.precisions = {schemas::preset("exact")};
  EXPECT_LT(need(1).precision_caches, need(1).exact_cache / 10);
}

TEST_F(MemoryTest, WeightsAreCountedOnce) {
  EXPECT_EQ(need(1).weights, 4.0 * static_cast<double>(engine::parameter_count(model_)));
}

TEST_F(MemoryTest, CalibrationWindowsLieThereTogether) {
  config_.precisions = {schemas::preset("kvquant-nuq3")};
  config_.calibration = {.windows = 16, .tokens = 700};
  model_.context_length = 4096;
  EXPECT_EQ(need(1).exact_cache, 16.0 * 700 * 4 * 2 * 16 * 6);
}

TEST_F(MemoryTest, AsManyAsFitInEvenGroups) {
  EXPECT_EQ(at_once(0), 5u);  // no limit
  EXPECT_EQ(at_once(need(5).total() + 1), 5u);
  EXPECT_EQ(at_once(need(5).total() - 1), 3u);  // 3 + 2, rather than 4 + 1
  EXPECT_EQ(at_once(need(3).total() - 1), 2u);
  EXPECT_EQ(at_once(need(2).total() - 1), 1u);
  EXPECT_EQ(at_once(need(1).total() + 1), 1u);
}

TEST_F(MemoryTest, NotEvenOne) {
  const double least = need(1).total();
  EXPECT_THAT(testing::message_of([&] { at_once(least / 2); }),
              HasSubstr("collecting one precision at a time takes about"));
}

}  // namespace
}  // namespace dgap::collector
