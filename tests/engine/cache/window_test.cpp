#include <gtest/gtest.h>

#include <algorithm>

#include "base/half.hpp"
#include "tests/engine/cache/fixtures.hpp"

namespace dgap::engine {
namespace {

using schemas::GroupAxis;
using schemas::Quantizer;
using schemas::Scheme;
using testing::custom;
using testing::read_keys;
using testing::read_values;
using testing::Stream;

const CacheShape kShape{2, 2, 32, 10000.0};

Scheme by_token(int window, int sinks) {
  return custom({.bits = 4, .quantizer = Quantizer::symmetric}, window, sinks);
}
Scheme by_channel(int window, int sinks, int group) {
  return custom({.bits = 2,
                 .quantizer = Quantizer::asymmetric,
                 .axis = GroupAxis::channel,
                 .group_size = group},
                window, sinks);
}

/// Tokens that a cache of `length` tokens holds exactly, sinks apart.
std::int64_t exact_tokens(const Scheme& scheme, std::int64_t length) {
  const Stream stream({1, 1, 32, 10000.0}, length);
  const auto prefix = stream.exact(length);
  const QuantizedCache cache(scheme, *prefix, length);
  EXPECT_EQ(cache.raw_key(0, 0).tokens,
            std::max<std::int64_t>(cache.exact_begin(length - 1) - cache.sinks(), 0));
  return length - std::min<std::int64_t>(length, cache.sinks()) - cache.raw_key(0, 0).tokens;
}

TEST(Window, TokenGroupsKeepTheNewest) {
  for (const int window : {0, 1, 16, 32})
    for (const int sinks : {0, 4}) {
      const std::int64_t r = std::max(window, 1);
      for (const std::int64_t beyond : {std::int64_t{0}, r - 1, r, r + 1, r + 8, 2 * r, 3 * r + 1})
        EXPECT_EQ(exact_tokens(by_token(window, sinks), sinks + beyond), std::min(beyond, r))
            << "R " << window << ", sinks " << sinks << ", tokens beyond them " << beyond;
      EXPECT_EQ(exact_tokens(by_token(window, sinks), 3),
                std::min<std::int64_t>(3 - std::min(sinks, 3), r));
    }
}

TEST(Window, ChannelGroupsLeaveWhole) {
  for (const int window : {0, 1, 16, 32})
    for (const int group : {8, 16})
      for (const int sinks : {0, 4}) {
        const std::int64_t r = std::max(window, 1), g = group;
        for (const std::int64_t beyond :
             {r - 1, r, r + 1, r + g - 1, r + g, r + g + 1, 2 * r, r + 3 * g}) {
          const std::int64_t exact = exact_tokens(by_channel(window, sinks, group), sinks + beyond);
          EXPECT_EQ(exact, beyond < r ? beyond : r + (beyond - r) % g)
              << "R " << window << ", G " << group << ", sinks " << sinks << ", tokens beyond them "
              << beyond;
        }
      }
}

TEST(Window, MixedAxesLeaveTogether) {
  Scheme scheme = by_token(4, 0);
  scheme.key = by_channel(0, 0, 8).key;
  EXPECT_EQ(exact_tokens(scheme, 4 + 7), 4 + 7);
  EXPECT_EQ(exact_tokens(scheme, 4 + 8), 4);
}

TEST(Window, FortyTokensSixteenExact) {
  const Stream stream(kShape, 40);
  const auto prefix = stream.exact(40);
  const QuantizedCache cache(by_token(16, 0), *prefix, 40);
  EXPECT_EQ(cache.exact_begin(39), 24);
  EXPECT_EQ(cache.raw_value(1, 1).tokens, 24);
  EXPECT_EQ(read_keys(cache, 1, 1, Copy::exact, 24, 40),
            read_keys(*prefix, 1, 1, Copy::exact, 24, 40));
  EXPECT_EQ(read_values(cache, 1, 1, Copy::exact, 24, 40),
            read_values(*prefix, 1, 1, Copy::exact, 24, 40));
}

/// Every row of a block finds the exact copies and the codes that it would have seen step by step.
void expect_rows_are_served(const Scheme& scheme, std::int64_t length, std::int64_t block) {
  const std::int64_t total = length + 3 * block + 5;
  const Stream stream(kShape, total);
  const auto all = stream.exact(total), prefix = stream.exact(length);
  const QuantizedCache finished(scheme, *all, total);
  QuantizedCache cache(scheme, *prefix, length);
  for (std::int64_t from = length; from < total;) {
    const std::int64_t to = std::min(total, from + block);
    stream.feed(cache, from, to);
    for (std::int64_t row = from; row < to; ++row) {
      const std::int64_t begin = cache.exact_begin(row), sinks = std::min(cache.sinks(), row + 1);
      ASSERT_GE(begin, cache.exact_begin(row - 1));
      for (int head = 0; head < 2; ++head) {
        if (begin <= row) {
          ASSERT_EQ(read_keys(cache, 0, head, Copy::exact, begin, row + 1),
                    read_keys(*all, 0, head, Copy::exact, begin, row + 1));
          ASSERT_EQ(read_values(cache, 1, head, Copy::exact, begin, row + 1),
                    read_values(*all, 1, head, Copy::exact, begin, row + 1));
        }
        ASSERT_EQ(read_keys(cache, 1, head, Copy::exact, 0, sinks),
                  read_keys(*all, 1, head, Copy::exact, 0, sinks));
        ASSERT_EQ(read_keys(cache, 0, head, Copy::quantized, cache.sinks(), begin),
                  read_keys(finished, 0, head, Copy::quantized, cache.sinks(), begin));
        ASSERT_EQ(read_values(cache, 1, head, Copy::quantized, cache.sinks(), begin),
                  read_values(finished, 1, head, Copy::quantized, cache.sinks(), begin));
      }
    }
    from = to;
  }
}

TEST(Window, EveryRowOfABlockIsServed) {
  for (const int window : {0, 5, 16})
    for (const std::int64_t block : {1, 7, 32}) {
      expect_rows_are_served(by_token(window, 0), 21, block);
      expect_rows_are_served(by_token(window, 4), 21, block);
      expect_rows_are_served(by_channel(window, 4, 8), 21, block);
    }
}

TEST(Window, PrefixShorterThanTheSinks) {
  for (const std::int64_t length : {0, 1, 3, 6}) {
    expect_rows_are_served(by_token(0, 6), length, 4);
    expect_rows_are_served(by_token(3, 6), length, 1);
    expect_rows_are_served(by_channel(0, 6, 8), length, 30);
  }
}

TEST(Window, KeysBeforeRopeAreExactBeforeRope) {
  const Stream stream(kShape, 60);
  const auto prefix = stream.exact(40);
  QuantizedCache cache(schemas::preset("K1V1-R8"), *prefix, 40);
  stream.feed(cache, 40, 60);
  RopeTable rope(kShape.head_dim, kShape.rope, 60);
  const auto expect_exact = [&](std::int64_t from, std::int64_t to) {
    std::vector<float> expected;
    for (std::int64_t t = from; t < to; ++t)
      for (int c = 0; c < kShape.head_dim; ++c)
        expected.push_back(base::round_to_half(stream.key(1, t)[kShape.head_dim + c]));
    rope.apply(from, to - from, 1, expected.data());
    EXPECT_EQ(read_keys(cache, 1, 1, Copy::exact, from, to), expected);
  };
  expect_exact(0, 4);
  expect_exact(cache.exact_begin(40), 60);
}

}  // namespace
}  // namespace dgap::engine
