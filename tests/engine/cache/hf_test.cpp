#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/cache/hf_codes.hpp"
#include "fixtures.hpp"
#include "tests/testing/message_of.hpp"

namespace dgap::engine {
namespace {

using schemas::preset;
using schemas::Scheme;
using ::testing::HasSubstr;
using testing::Stream;

const CacheShape kShape{2, 3, 64, 10000.0};

void feed(const Stream& stream, QuantizedCache& cache, std::int64_t block) {
  for (std::int64_t t = cache.length(); t < stream.tokens;) {
    const std::int64_t rows = std::min({block, stream.tokens - t, cache.block_limit()});
    stream.feed(cache, t, t + rows);
    t += rows;
  }
}

TEST(HfCodes, StepByStepAndInBlocksStoreTheSame) {
  const Stream stream(kShape, 250);
  const auto prefix = stream.exact(70);
  for (const char* name :
       {"hf-quanto-4-R40", "hf-quanto-2-axis1-R40", "hf-hqq-2-R40", "hf-hqq-4-axis1-R40"}) {
    QuantizedCache steps(preset(name), *prefix, 70), blocks(preset(name), *prefix, 70);
    feed(stream, steps, 1), feed(stream, blocks, 33);
    for (const auto layer : {&QuantizedCache::layer_keys, &QuantizedCache::layer_values}) {
      const auto& a = dynamic_cast<const HfCodes&>(*(steps.*layer)(1));
      const auto& b = dynamic_cast<const HfCodes&>(*(blocks.*layer)(1));
      EXPECT_EQ(a.size(), 70 + 4 * 40);
      EXPECT_TRUE(std::ranges::equal(a.codes(), b.codes())) << name;
      EXPECT_EQ(a.scales().size(), b.scales().size());
      EXPECT_EQ(std::memcmp(a.scales().data(), b.scales().data(), a.scales().size_bytes()), 0);
    }
  }
}

TEST(HfCodes, RowsOfTheBlockThatFlushesReadTheCodesBefore) {
  const Stream stream(kShape, 120);
  const auto prefix = stream.exact(64);
  QuantizedCache cache(preset("hf-quanto-4-R16"), *prefix, 64);
  const auto before = testing::read_values(cache, 0, 2, Copy::quantized, 0, 64);
  EXPECT_EQ(cache.block_limit(), 16);
  stream.feed(cache, 64, 80);
  const ExactTokens last = cache.exact_tokens(cache.view(0, 2), 79);
  EXPECT_EQ(last.values, 64);
  EXPECT_EQ(cache.exact_tokens(cache.view(0, 2), 80).keys, 80);
  EXPECT_EQ(testing::read_values(cache, 0, 2, Copy::quantized, 0, 64), before);
  EXPECT_EQ(testing::read_values(cache, 0, 2, Copy::exact, 64, 80),
            testing::read_values(*stream.exact(80), 0, 2, Copy::exact, 64, 80));
  EXPECT_EQ(cache.block_limit(), 16);
  stream.feed(cache, 80, 81);
  EXPECT_EQ(cache.block_limit(), 15);
  const auto after = testing::read_values(cache, 0, 2, Copy::quantized, 0, 80);
  EXPECT_EQ(after.size(), 80u * 64);
}

TEST(HfCodes, CountsCodesAndScales) {
  const Stream stream(kShape, 128);
  const auto prefix = stream.exact(128);
  const QuantizedCache quanto(preset("hf-quanto-4"), *prefix, 128);
  EXPECT_DOUBLE_EQ(quanto.bytes().bits_key(), 4.5);
  const QuantizedCache hqq(preset("hf-hqq-3-axis1"), *prefix, 128);
  EXPECT_DOUBLE_EQ(hqq.bytes().bits_value(), 3.5);
  EXPECT_EQ(hqq.bytes().total_bytes_value, hqq.bytes().code_bytes_value);  // nothing is exact
}

TEST(HfSchemes, AreAsTheLibraryHasThem) {
  const Scheme scheme = preset("hf-quanto-4");
  EXPECT_EQ(scheme.key.axis, schemas::GroupAxis::token);
  EXPECT_EQ(scheme.residual_window, 128);
  EXPECT_EQ(preset("hf-quanto-4-axis1").key.axis, schemas::GroupAxis::channel);
  EXPECT_EQ(preset("hf-hqq-4").key.axis, schemas::GroupAxis::channel);
  EXPECT_EQ(preset("hf-hqq-4-axis1-g32-R64").key.axis, schemas::GroupAxis::token);
  EXPECT_EQ(preset("hf-hqq-4-axis1-g32-R64").key.group_size, 32);
  const auto error = [](auto change) {
    Scheme bad = preset("hf-hqq-4");
    bad.family = "custom";
    change(bad);
    return dgap::testing::message_of([&] { schemas::validate(bad); });
  };
  EXPECT_THAT(error([](Scheme& s) { s.sink_tokens = 4; }), HasSubstr("set sink_tokens to 0"));
  EXPECT_THAT(error([](Scheme& s) { s.residual_window = 0; }), HasSubstr("must be positive"));
  EXPECT_THAT(error([](Scheme& s) { s.key.window = schemas::WindowRule::flush; }),
              HasSubstr("belongs to quantizers quanto and hqq"));
  EXPECT_THAT(error([](Scheme& s) { s.key.rotate = true; }),
              HasSubstr("codes the tensor as it is"));
}

}  // namespace
}  // namespace dgap::engine
