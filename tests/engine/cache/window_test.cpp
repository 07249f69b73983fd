#include <gtest/gtest.h>

#include <algorithm>

#include "base/half.hpp"
#include "tests/engine/cache/fixtures.hpp"

namespace dgap::engine {
namespace {

using schemas::GroupAxis;
using schemas::Quantizer;
using schemas::Scheme;
using schemas::WindowRule;
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
struct Held {
  std::int64_t keys, values;
};
Held exact_tokens(const Scheme& scheme, std::int64_t length) {
  const Stream stream({1, 1, 32, 10000.0}, length);
  const auto prefix = stream.exact(length);
  const QuantizedCache cache(scheme, *prefix, length);
  const std::int64_t beyond = length - std::min<std::int64_t>(length, scheme.sink_tokens);
  return {beyond - cache.raw_key(0, 0).tokens, beyond - cache.raw_value(0, 0).tokens};
}

TEST(Window, TokenGroupsKeepTheNewest) {
  for (const int window : {0, 1, 16, 32})
    for (const int sinks : {0, 4}) {
      const std::int64_t r = std::max(window, 1);
      for (const std::int64_t beyond : {std::int64_t{0}, r - 1, r, r + 1, r + 8, 2 * r, 3 * r + 1})
        EXPECT_EQ(exact_tokens(by_token(window, sinks), sinks + beyond).keys, std::min(beyond, r))
            << "R " << window << ", sinks " << sinks << ", tokens beyond them " << beyond;
      EXPECT_EQ(exact_tokens(by_token(window, sinks), 3).values,
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
          const std::int64_t exact =
              exact_tokens(by_channel(window, sinks, group), sinks + beyond).keys;
          EXPECT_EQ(exact, beyond < r ? beyond : r + (beyond - r) % g)
              << "R " << window << ", G " << group << ", sinks " << sinks << ", tokens beyond them "
              << beyond;
        }
      }
}

TEST(Window, EachTensorLeavesByItsOwnRule) {
  Scheme scheme = by_token(4, 0);
  scheme.key = by_channel(0, 0, 8).key;
  EXPECT_EQ(exact_tokens(scheme, 4 + 7).keys, 4 + 7);
  EXPECT_EQ(exact_tokens(scheme, 4 + 7).values, 4);
  EXPECT_EQ(exact_tokens(scheme, 4 + 8).keys, 4);
}

TEST(Window, FlushEmptiesAndLaggingKeepsTheNewest) {
  for (const int residual : {16, 32})
    for (const int sinks : {0, 4}) {
      Scheme scheme = by_channel(residual, sinks, 8);
      scheme.key.window = WindowRule::flush;
      scheme.value = by_token(0, 0).value;
      scheme.value.window = WindowRule::lagging;
      const std::int64_t r = residual;
      for (const std::int64_t n : {std::int64_t{0}, r - 1, r, r + 1, 2 * r, 3 * r + 1}) {
        const Held held = exact_tokens(scheme, sinks + n);
        EXPECT_EQ(held.keys, n % r) << "R " << r << ", tokens beyond the sinks " << n;
        EXPECT_EQ(held.values, std::min(n, r)) << "R " << r << ", tokens beyond the sinks " << n;
        // The next row sees its own token besides.
        const Window keys(scheme.key, residual, sinks, 0), values(scheme.value, residual, sinks, 0);
        EXPECT_EQ(sinks + n - keys.exact_begin(sinks + n), n % r);
        EXPECT_EQ(sinks + n - values.exact_begin(sinks + n), std::min(n, r));
      }
    }
}

TEST(Window, NoneKeepsNothing) {
  Scheme scheme = by_token(5, 2);
  scheme.key.window = scheme.value.window = WindowRule::none;
  EXPECT_EQ(exact_tokens(scheme, 40).keys, 0);
  EXPECT_EQ(Window(scheme.key, 5, 2, 0).exact_begin(39), 40);
  EXPECT_EQ(Window(scheme.key, 5, 2, 0).exact_begin(0), 2);
}

TEST(Window, FortyTokensSixteenExact) {
  const Stream stream(kShape, 40);
  const auto prefix = stream.exact(40);
  const QuantizedCache cache(by_token(16, 0), *prefix, 40);
  EXPECT_EQ(cache.exact_tokens(0, 39).keys, 24);
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
      const ExactTokens exact = cache.exact_tokens(0, row), before = cache.exact_tokens(0, row - 1);
      ASSERT_GE(exact.keys, before.keys);
      ASSERT_GE(exact.values, before.values);
      const std::int64_t sinks = std::min(exact.sinks, row + 1);
      for (int head = 0; head < 2; ++head) {
        if (exact.keys <= row) {
          ASSERT_EQ(read_keys(cache, 0, head, Copy::exact, exact.keys, row + 1),
                    read_keys(*all, 0, head, Copy::exact, exact.keys, row + 1));
        }
        if (exact.values <= row) {
          ASSERT_EQ(read_values(cache, 1, head, Copy::exact, exact.values, row + 1),
                    read_values(*all, 1, head, Copy::exact, exact.values, row + 1));
        }
        ASSERT_EQ(read_keys(cache, 1, head, Copy::exact, 0, sinks),
                  read_keys(*all, 1, head, Copy::exact, 0, sinks));
        ASSERT_EQ(read_keys(cache, 0, head, Copy::quantized, exact.sinks, exact.keys),
                  read_keys(finished, 0, head, Copy::quantized, exact.sinks, exact.keys));
        ASSERT_EQ(read_values(cache, 1, head, Copy::quantized, exact.sinks, exact.values),
                  read_values(finished, 1, head, Copy::quantized, exact.sinks, exact.values));
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

TEST(Window, EveryRowIsServedWhereKeysAndValuesDiffer) {
  const WindowRule rules[] = {WindowRule::sliding, WindowRule::lagging, WindowRule::flush};
  for (const WindowRule keys : rules)
    for (const WindowRule values :
         {WindowRule::sliding, WindowRule::lagging, WindowRule::flush, WindowRule::none})
      for (const std::int64_t block : {1, 7, 32, 70}) {
        Scheme scheme = by_channel(16, 3, 8);
        scheme.value = by_token(0, 0).value;
        scheme.key.window = keys, scheme.value.window = values;
        expect_rows_are_served(scheme, 21, block);
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
  expect_exact(cache.exact_tokens(0, 40).keys, 60);
}

}  // namespace
}  // namespace dgap::engine
