#include "engine/cache/quantized_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "engine/cache/packing.hpp"
#include "tests/engine/cache/fixtures.hpp"

namespace dgap::engine {
namespace {

using schemas::GroupAxis;
using schemas::preset;
using schemas::Quantizer;
using schemas::Scheme;
using testing::custom;
using ::testing::HasSubstr;
using testing::read_keys;
using testing::read_values;
using testing::stored;
using testing::Stream;

const CacheShape kShape{2, 2, 64, 10000.0};

std::vector<Scheme> many_schemes() {
  std::vector<Scheme> schemes;
  for (const char* name : {"K1V1", "K2V2", "K4V4", "K8V8", "K1V4", "K16V2", "K4V16", "rotated-K1V1",
                           "rotated-K2V8", "uniform-K1V1", "uniform-K4V2", "exact"})
    schemes.push_back(preset(name));
  Scheme kivi = custom({.bits = 2, .quantizer = Quantizer::asymmetric, .group_size = 32}, 0, 0);
  kivi.key.axis = GroupAxis::channel;
  schemes.push_back(kivi);
  kivi.value.window = schemas::WindowRule::lagging;
  schemes.push_back(kivi);
  schemes.push_back(preset("kivi-2-R32"));
  schemes.push_back(preset("kivi-4-g64"));
  Scheme bare = custom({.bits = 4, .quantizer = Quantizer::symmetric}, 0, 0);
  bare.key.window = schemas::WindowRule::none, bare.value.window = schemas::WindowRule::flush;
  schemes.push_back(bare);
  Scheme all = custom({.bits = 4,
                       .quantizer = Quantizer::asymmetric,
                       .group_size = 16,
                       .center = true,
                       .normalize = true,
                       .rotate = true},
                      0, 2);
  schemes.push_back(all);
  all.key_before_rope = true;
  schemes.push_back(all);
  return schemes;
}

/// Keys in groups of tokens that are flushed together need a window of whole groups.
bool is_valid(const Scheme& scheme) {
  return scheme.key.axis == GroupAxis::token || scheme.key.window != schemas::WindowRule::flush ||
         (scheme.residual_window > 0 && scheme.residual_window % scheme.key.group_size == 0);
}

TEST(QuantizedCache, StreamedBlockedAndAtOnceStoreEqualBytes) {
  for (Scheme scheme : many_schemes())
    for (const int window : {0, 1, 16, 32, 128}) {
      scheme.residual_window = window;
      if (!is_valid(scheme)) continue;
      const std::int64_t length = 50, total = length + 3 * std::max(window, 32) + 1;
      const Stream stream(kShape, total);
      const auto prefix = stream.exact(length);
      const auto fed = [&](auto next_block) {
        QuantizedCache cache(scheme, *prefix, length);
        for (std::int64_t t = length; t < total;) {
          const std::int64_t to = std::min(total, t + next_block(t));
          stream.feed(cache, t, to);
          t = to;
        }
        EXPECT_EQ(cache.length(), total);
        return stored(cache);
      };
      const auto at_once = fed([&](std::int64_t) { return total; });
      EXPECT_EQ(fed([](std::int64_t) { return 1; }), at_once) << scheme.name << " R " << window;
      EXPECT_EQ(fed([](std::int64_t t) { return 1 + t % 37; }), at_once)
          << scheme.name << " R " << window;
    }
}

TEST(QuantizedCache, APrefixIsQuantisedAsItsTokensWouldBe) {
  // Without statistics over the prefix, it makes no difference where the prefix ends.
  for (const char* name :
       {"rotated-K1V1-R5", "rotated-K4V4-S3", "uniform-K2V8", "uniform-K8V16-R40"}) {
    const Stream stream(kShape, 150);
    const auto prefix = stream.exact(150);
    QuantizedCache appended(preset(name), *prefix, 60);
    stream.feed(appended, 60, 150);
    EXPECT_EQ(stored(appended), stored(QuantizedCache(preset(name), *prefix, 150))) << name;
  }
}

TEST(QuantizedCache, ThreadCountAndGrowingPrefixChangeNothing) {
  const Stream stream(kShape, 400);
  const auto run = [&](std::size_t threads) {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
    const auto prefix = stream.exact(200);
    QuantizedCache cache(preset("K2V1-R16"), *prefix, 150);
    stream.feed(*prefix, 200, 400);
    stream.feed(cache, 150, 400);
    return stored(cache);
  };
  EXPECT_EQ(run(1), run(4));
}

TEST(QuantizedCache, AnF32PrefixIsRoundedToHalf) {
  const Stream stream(kShape, 90);
  for (const char* name : {"K1V1-R16", "rotated-K4V4", "uniform-K8V8"}) {
    const auto half = stream.exact(90), full = stream.exact(90, ExactCacheType::f32);
    const QuantizedCache a(preset(name), *half, 90), b(preset(name), *full, 90);
    EXPECT_EQ(stored(a), stored(b)) << name;
    EXPECT_EQ(read_values(a, 0, 1, Copy::exact, 89, 90), read_values(b, 0, 1, Copy::exact, 89, 90));
  }
}

/// The codes of one tensor as decoded values, by the formulas of docs/schemes.md.
std::vector<float> decoded(const QuantizedCache::Raw& raw, const schemas::TensorScheme& tensor,
                           int head_dim) {
  std::vector<float> out(static_cast<std::size_t>(raw.tokens * head_dim));
  make_codec(tensor, head_dim, 0)
      ->decode(raw.parameters, 0, raw.tokens, raw.codes.data(), raw.scales.data(),
               raw.minima.data(), out.data());
  return out;
}

TEST(QuantizedCache, KeysReadAsCodesTimesScaleTimesRmsPlusMeanThenRope) {
  const Stream stream(kShape, 80);
  const auto prefix = stream.exact(80);
  const QuantizedCache cache(preset("K2V2"), *prefix, 80);
  const auto raw = cache.raw_key(1, 1);
  std::vector<float> keys = decoded(raw, preset("K2V2").key, 64);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = keys[i] * raw.rms[i % 64] + raw.mean[i % 64];
  prefix->rope().apply(raw.first, raw.tokens, 1, keys.data());
  EXPECT_EQ(read_keys(cache, 1, 1, Copy::quantized, raw.first, raw.first + raw.tokens), keys);
  EXPECT_EQ(read_keys(cache, 1, 1, Copy::quantized, 17, 41),
            std::vector<float>(keys.begin() + (17 - 4) * 64, keys.begin() + (41 - 4) * 64));
}

TEST(QuantizedCache, FinishedSumsEqualSumsOfRestoredValues) {
  const Stream stream(kShape, 200);
  const auto prefix = stream.exact(200);
  for (const Scheme& scheme : many_schemes()) {
    const QuantizedCache cache(scheme, *prefix, 200);
    const std::int64_t from = cache.exact_tokens(0, 0).sinks,
                       to = scheme.value.bits == 16 ? 200 : from + cache.raw_value(1, 0).tokens;
    const auto rows = static_cast<std::size_t>(to - from);
    const std::vector<float> values = read_values(cache, 1, 0, Copy::quantized, from, to);
    std::vector<float> weights(rows), sums(64, 0.0f);
    base::Random random(5, "weights");
    double mass = 0;
    for (float& w : weights)
      w = static_cast<float>(random.uniform() / static_cast<double>(rows)),
      mass += static_cast<double>(w);
    std::vector<double> expected(64, 0.0);
    for (std::size_t j = 0; j < rows; ++j) {
      std::vector<float> value(values.begin() + static_cast<std::ptrdiff_t>(j * 64),
                               values.begin() + static_cast<std::ptrdiff_t>(j * 64 + 64));
      for (std::size_t c = 0; c < 64; ++c) sums[c] += weights[j] * value[c];
      const float one = 1.0f;  // a single value is a sum of mass 1
      cache.finish_values(1, 0, 1, &one, value.data());
      for (std::size_t c = 0; c < 64; ++c)
        expected[c] += static_cast<double>(weights[j]) * static_cast<double>(value[c]);
    }
    const auto total = static_cast<float>(mass);
    cache.finish_values(1, 0, 1, &total, sums.data());
    for (std::size_t c = 0; c < 64; ++c)  // |values| < 60, a few hundred f32 roundings of them
      ASSERT_NEAR(sums[c], expected[c], 2e-4) << scheme.name;
  }
}

TEST(QuantizedCache, EightBitReadsAreNearTheExactOnes) {
  // The whole chain of every family: rotation, centring, RoPE, window, un-rotation.
  const Stream stream(kShape, 150);
  const auto all = stream.exact(150), prefix = stream.exact(100);
  for (const char* name : {"K8V8", "rotated-K8V8", "uniform-K8V8"}) {
    QuantizedCache cache(preset(name), *prefix, 100);
    stream.feed(cache, 100, 150);
    base::Random random(2, "queries");
    std::vector<float> query(64);
    for (float& q : query) q = static_cast<float>(random.normal());
    std::vector<float> rotated = query;
    cache.rotate_queries(0, 1, 1, rotated.data());
    const auto keys = read_keys(cache, 0, 1, Copy::quantized, 4, 149);
    const auto exact = read_keys(*all, 0, 1, Copy::exact, 4, 149);
    double error = 0, size = 0;
    for (std::size_t j = 0; j < 145; ++j) {
      double a = 0, b = 0;
      for (std::size_t c = 0; c < 64; ++c) {
        a += static_cast<double>(rotated[c]) * static_cast<double>(keys[j * 64 + c]);
        b += static_cast<double>(query[c]) * static_cast<double>(exact[j * 64 + c]);
      }
      error += (a - b) * (a - b), size += b * b;
    }
    EXPECT_LT(std::sqrt(error / size), 0.02) << name;
    const auto restored = [&] {
      auto values = read_values(cache, 1, 1, Copy::quantized, 4, 149);
      const std::vector<float> ones(145, 1.0f);
      cache.finish_values(1, 1, 145, ones.data(), values.data());
      return values;
    }();
    const auto values = read_values(*all, 1, 1, Copy::exact, 4, 149);
    error = size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double d = static_cast<double>(restored[i]) - static_cast<double>(values[i]);
      error += d * d, size += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    EXPECT_LT(std::sqrt(error / size), 0.02) << name;
  }
}

TEST(QuantizedCache, ExactTensorsEqualTheExactCache) {
  const Stream stream(kShape, 120);
  const auto all = stream.exact(120), prefix = stream.exact(70);
  for (const char* name : {"exact", "K16V1-R4", "rotated-K2V16"}) {
    QuantizedCache cache(preset(name), *prefix, 70);
    for (std::int64_t t = 70; t < 120; t += 10) stream.feed(cache, t, t + 10);
    if (preset(name).key.bits == 16) {
      for (const Copy copy : {Copy::exact, Copy::quantized})
        EXPECT_EQ(read_keys(cache, 1, 0, copy, 0, 120), read_keys(*all, 1, 0, Copy::exact, 0, 120))
            << name;
    }
    if (preset(name).value.bits == 16) {
      for (const Copy copy : {Copy::exact, Copy::quantized})
        EXPECT_EQ(read_values(cache, 1, 0, copy, 0, 120),
                  read_values(*all, 1, 0, Copy::exact, 0, 120))
            << name;
    }
  }
  EXPECT_EQ(QuantizedCache(preset("exact"), *prefix, 70).exact_tokens(0, 69).keys, 0);
}

TEST(QuantizedCache, PrefixOfSinksOnlyHasNeutralStatistics) {
  const Stream stream(kShape, 40);
  const auto prefix = stream.exact(4);
  QuantizedCache cache(preset("K4V4"), *prefix, 4);
  EXPECT_THAT(cache.raw_key(0, 0).mean, ::testing::Each(0.0f));
  EXPECT_THAT(cache.raw_key(0, 0).rms, ::testing::Each(1.0f));
  stream.feed(cache, 4, 40);
  for (const float v : read_keys(cache, 1, 1, Copy::quantized, 4, 39))
    ASSERT_TRUE(std::isfinite(v));
}

TEST(QuantizedCache, RmsHasAFloor) {
  const Stream stream(kShape, 40);  // channel 1 of head 0 is constant
  const auto prefix = stream.exact(40);
  const QuantizedCache cache(preset("K1V1"), *prefix, 40);
  EXPECT_EQ(cache.raw_key(0, 0).rms[1], 17 * 0x1p-24f);  // 1e-6 as FP16
  EXPECT_GT(cache.raw_key(0, 0).rms[0], 0.01f);
}

/// Every head of a mixed cache stores what it would in a cache that is like it all over.
TEST(Mixed, HeadsStoreWhatUniformCachesStore) {
  const Stream stream(kShape, 260);
  const auto prefix = stream.exact(150);
  const auto fed = [&](const Scheme& scheme) {
    auto cache = std::make_unique<QuantizedCache>(scheme, *prefix, 150);
    stream.feed(*cache, 150, 260);
    return cache;
  };
  Scheme mixed = preset("K2V2-R32");
  mixed.overrides = {{.layers = {1}, .key = preset("rotated-K4V4").key},
                     {.heads = {1}, .value = preset("kivi-2").value},
                     {.layers = {0}, .heads = {0}, .key = preset("kivi-2").key}};
  mixed.overrides[2].key->window = schemas::WindowRule::lagging;
  const auto cache = fed(mixed);
  EXPECT_EQ(cache->views(), 3);
  std::int64_t code_bytes = 0, elements = 0;
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      Scheme uniform = mixed;
      uniform.family = "custom", uniform.overrides.clear();
      uniform.key = schemas::head_scheme(mixed, 2, layer, head).key;
      uniform.value = schemas::head_scheme(mixed, 2, layer, head).value;
      const auto alike = fed(uniform);
      const auto expect_same = [&](const QuantizedCache::Raw& a, const QuantizedCache::Raw& b) {
        EXPECT_TRUE(std::ranges::equal(a.codes, b.codes));
        EXPECT_TRUE(std::ranges::equal(a.scales, b.scales));
        EXPECT_TRUE(std::ranges::equal(a.minima, b.minima));
        EXPECT_TRUE(std::ranges::equal(a.mean, b.mean));
      };
      expect_same(cache->raw_key(layer, head), alike->raw_key(layer, head));
      expect_same(cache->raw_value(layer, head), alike->raw_value(layer, head));
      const ExactTokens rule = alike->exact_tokens(alike->view(layer, head), 250);
      const ExactTokens same = cache->exact_tokens(cache->view(layer, head), 250);
      EXPECT_EQ(rule.keys, same.keys);
      EXPECT_EQ(rule.values, same.values);
      EXPECT_EQ(read_keys(*cache, layer, head, Copy::quantized, 4, rule.keys),
                read_keys(*alike, layer, head, Copy::quantized, 4, rule.keys));
      EXPECT_EQ(read_values(*cache, layer, head, Copy::quantized, 4, rule.values),
                read_values(*alike, layer, head, Copy::quantized, 4, rule.values));
      code_bytes += alike->bytes().code_bytes_key / 4;
      elements += alike->bytes().elements_key / 4;
    }
  EXPECT_EQ(cache->bytes().code_bytes_key, code_bytes);
  EXPECT_EQ(cache->bytes().elements_key, elements);
}

TEST(Mixed, BitsAreTheAverageOfTheAllocatedBytes) {
  const Stream stream(kShape, 200);
  const auto prefix = stream.exact(200);
  Scheme mixed = preset("uniform-K2V2-R40");  // 2.25 bits
  mixed.overrides = {{.layers = {0}, .heads = {0}, .key = schemas::TensorScheme{}},
                     {.layers = {1}, .key = preset("uniform-K8V8").key}};
  const QuantizedCache cache(mixed, *prefix, 200);
  EXPECT_DOUBLE_EQ(cache.bytes().bits_key(), (16 + 2.25 + 8.25 + 8.25) / 4);
  EXPECT_DOUBLE_EQ(cache.bytes().bits_value(), 2.25);
  mixed.residual_window = 0;  // the newest token is exact
  EXPECT_DOUBLE_EQ(QuantizedCache(mixed, *prefix, 200).bytes().bits_key(),
                   (16 + 2.25 + 8.25 + 8.25) / 4);
  EXPECT_EQ(cache.raw_key(0, 0).codes.size(), 0u);  // nothing is held twice
  EXPECT_EQ(cache.bytes().total_bytes_key,
            64 * 2 * 200 + (160 * 18 + 40 * 128) + 2 * (160 * 66 + 40 * 128));
}

TEST(OwnPrefix, ACacheFromTheFirstTokenOn) {
  // Without statistics, it stores what a continuation of an exact prefix of the same tokens does.
  const Stream stream(kShape, 230);
  const auto prefix = stream.exact(130);
  for (const char* name : {"rotated-K4V4-S3", "uniform-K2V8-R5", "kivi-2-R32"}) {
    QuantizedCache own(preset(name), kShape), fork(preset(name), *prefix, 130);
    for (std::int64_t t = 0; t < 230; t += 23) stream.feed(own, t, t + 23);
    stream.feed(fork, 130, 230);
    EXPECT_EQ(own.length(), 230);
    EXPECT_EQ(stored(own), stored(fork)) << name;
  }
}

struct Bits {
  const char* name;
  double key, value;
};

TEST(Bytes, BitsPerElementOfCodesAndScales) {
  const Stream stream(kShape, 200);
  const auto prefix = stream.exact(200);
  for (const Bits& b :
       {Bits{"K1V1", 1.25, 1.25}, Bits{"K2V2-R32", 2.25, 2.25}, Bits{"rotated-K4V8", 4.25, 8.25},
        Bits{"K16V1", 16, 1.25}, Bits{"exact", 16, 16}}) {
    QuantizedCache cache(preset(b.name), *prefix, 150);
    stream.feed(cache, 150, 190);
    EXPECT_EQ(cache.bytes().bits_key(), b.key) << b.name;
    EXPECT_EQ(cache.bytes().bits_value(), b.value) << b.name;
  }
  Scheme s = custom({.bits = 2, .quantizer = Quantizer::asymmetric, .group_size = 32}, 0, 0);
  s.value.group_size = 16;
  s.key.axis = GroupAxis::channel;
  const QuantizedCache cache(s, *prefix, 200);
  EXPECT_EQ(cache.bytes().bits_key(), 2 + 32.0 / 32);
  EXPECT_EQ(cache.bytes().bits_value(), 2 + 32.0 / 16);
}

TEST(Bytes, EverythingIsCountedFromWhatIsStored) {
  const Stream stream(kShape, 300);
  const auto prefix = stream.exact(300);
  for (Scheme scheme : many_schemes()) {
    scheme.residual_window = scheme.key.window == schemas::WindowRule::flush ? 64 : 20;
    QuantizedCache cache(scheme, *prefix, 130);
    stream.feed(cache, 130, 190);
    const CacheBytes bytes = cache.bytes();
    std::int64_t key_codes = 0, value_codes = 0, key_statistics = 0;
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) {
        const auto count = [](const QuantizedCache::Raw& raw) {
          return static_cast<std::int64_t>(raw.codes.size_bytes() + raw.scales.size_bytes() +
                                           raw.minima.size_bytes());
        };
        key_codes += count(cache.raw_key(layer, head));
        value_codes += count(cache.raw_value(layer, head));
        key_statistics += 64 * 2 * (int{scheme.key.center} + int{scheme.key.normalize});
      }
    const std::int64_t heads = 4, quantised = cache.raw_key(0, 0).tokens;
    const std::int64_t exact = heads * (190 - 20 - scheme.sink_tokens) * 64;  // weigh as 16 bits
    EXPECT_EQ(bytes.code_bytes_key, scheme.key.bits == 16 ? 2 * exact : key_codes);
    EXPECT_EQ(bytes.code_bytes_value, scheme.value.bits == 16 ? 2 * exact : value_codes);
    EXPECT_EQ(bytes.elements_key, scheme.key.bits == 16 ? exact : heads * quantised * 64);
    EXPECT_EQ(bytes.total_elements_key, heads * 190 * 64);
    EXPECT_EQ(bytes.total_bytes_key,
              key_codes + key_statistics + heads * (190 - quantised) * 64 * 2)
        << scheme.name;
    if (scheme.key.bits < 16) {
      EXPECT_EQ(
          quantised,
          Window(scheme.key, scheme.residual_window, scheme.sink_tokens, 150).quantised_end(190) -
              scheme.sink_tokens);
    }
  }
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Refusals, NameWhatIsWrong) {
  const Stream stream({1, 1, 80, 10000.0}, 10);
  const auto prefix = stream.exact(10);
  const Scheme grouped =
      custom({.bits = 4, .quantizer = Quantizer::symmetric, .group_size = 64}, 0, 0);
  const std::string error = error_of([&] { make_quantized_cache(grouped, *prefix, 10); });
  EXPECT_THAT(error, HasSubstr("64"));
  EXPECT_THAT(error, HasSubstr("head_dim 80"));
  EXPECT_THAT(error_of([&] { make_quantized_cache(preset("rotated-K1V1"), *prefix, 10); }),
              HasSubstr("head_dim 80"));
  EXPECT_THAT(error_of([&] { make_quantized_cache(preset("uniform-K1V1"), *prefix, 11); }),
              HasSubstr("11 tokens"));
  const auto bare = make_exact_cache(kShape, ExactCacheType::f16, 1, false);
  EXPECT_THAT(error_of([&] { make_quantized_cache(preset("K1V1"), *bare, 0); }),
              HasSubstr("keep_pre_rope"));
  EXPECT_EQ(error_of([&] { make_quantized_cache(preset("rotated-K1V1"), *bare, 0); }), "no error");
}

TEST(HeadDims, OtherThanPowersOfTwo) {
  for (const int head_dim : {80, 96, 100, 36}) {
    const Stream stream({1, 2, head_dim, 10000.0}, 90);
    const auto prefix = stream.exact(60);
    for (const char* name : {"uniform-K1V1", "uniform-K2V2-R7", "uniform-K4V8"}) {
      QuantizedCache cache(preset(name), *prefix, 60);
      stream.feed(cache, 60, 90);
      EXPECT_EQ(cache.raw_key(0, 1).codes.size(),
                static_cast<std::size_t>(cache.raw_key(0, 1).tokens) *
                    packed_bytes(preset(name).key.bits, static_cast<std::size_t>(head_dim)));
      for (const float v :
           read_keys(cache, 0, 1, Copy::quantized, 0, cache.exact_tokens(0, 89).keys))
        ASSERT_TRUE(std::isfinite(v));
    }
  }
}

}  // namespace
}  // namespace dgap::engine
