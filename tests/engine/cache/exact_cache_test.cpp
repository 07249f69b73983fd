#include "engine/cache/exact_cache.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/half.hpp"
#include "tests/engine/cache/fixtures.hpp"

namespace dgap::engine {
namespace {

using testing::read_keys;
using testing::read_values;
using testing::Stream;

TEST(ExactCache, HoldsKeysAfterRopeValuesAndKeysBeforeRope) {
  const Stream stream({2, 3, 48, 10000.0}, 37);
  for (const ExactCacheType type : {ExactCacheType::f16, ExactCacheType::f32}) {
    const auto cache = stream.exact(37, type);
    EXPECT_EQ(cache->length(), 37);
    EXPECT_EQ(cache->exact_tokens(0, 20).keys, 0);
    const auto stored = [&](float x) {
      return type == ExactCacheType::f16 ? base::round_to_half(x) : x;
    };
    for (int layer = 0; layer < 2; ++layer) {
      std::vector<float> rotated = stream.keys[static_cast<std::size_t>(layer)];
      cache->rope().apply(0, 37, 3, rotated.data());
      for (int head = 0; head < 3; ++head) {
        const auto keys = read_keys(*cache, layer, head, Copy::exact, 0, 37);
        const auto values = read_values(*cache, layer, head, Copy::exact, 0, 37);
        std::vector<float> before(keys.size());
        cache->read_pre_rope_keys(layer, head, 0, 37, before.data());
        for (std::size_t t = 0; t < 37; ++t)
          for (std::size_t c = 0; c < 48; ++c) {
            const std::size_t from = (t * 3 + static_cast<std::size_t>(head)) * 48 + c,
                              at = t * 48 + c;
            ASSERT_EQ(keys[at], stored(rotated[from]));
            ASSERT_EQ(values[at], stored(stream.value(layer, 0)[from]));
            ASSERT_EQ(before[at], stored(stream.key(layer, 0)[from]));
          }
        EXPECT_EQ(read_keys(*cache, layer, head, Copy::exact, 11, 20),
                  std::vector<float>(keys.begin() + 11 * 48, keys.begin() + 20 * 48));
      }
    }
  }
}

TEST(ExactCache, StepByStepEqualsBlocksAlsoPastTheCapacity) {
  const Stream stream({2, 2, 64, 10000.0}, 700);
  const auto whole = stream.exact(700);
  const auto steps = make_exact_cache(stream.shape, ExactCacheType::f16, 5, false);
  for (std::int64_t t = 0; t < 700; ++t) stream.feed(*steps, t, t + 1);
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      EXPECT_EQ(read_keys(*steps, layer, head, Copy::exact, 0, 700),
                read_keys(*whole, layer, head, Copy::exact, 0, 700));
      EXPECT_EQ(read_values(*steps, layer, head, Copy::exact, 0, 700),
                read_values(*whole, layer, head, Copy::exact, 0, 700));
    }
}

TEST(ExactCache, CountsSixteenBitsPerElement) {
  const Stream stream({2, 3, 48, 10000.0}, 10);
  const CacheBytes bytes = stream.exact(10)->bytes();
  EXPECT_EQ(bytes.total_bytes_key, 2 * 3 * 48 * 10 * 2);
  EXPECT_EQ(bytes.total_bits_value(), 16.0);
  EXPECT_EQ(bytes.bits_key(), 16.0);
  EXPECT_EQ(bytes.elements_key, 0);
}

TEST(ExactCache, ImpossibleShapesAreRefused) {
  for (const CacheShape& shape : {CacheShape{0, 1, 64}, CacheShape{1, 0, 64}, CacheShape{1, 1, 0},
                                  CacheShape{1, 1, 1024}, CacheShape{1, 1, 63}})
    EXPECT_THROW(ExactCache(shape, ExactCacheType::f16, 1, false), base::FailedError)
        << shape.head_dim;
}

}  // namespace
}  // namespace dgap::engine
