#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/half.hpp"
#include "engine/cache/rotation.hpp"
#include "engine/cache/sketch_codec.hpp"
#include "tests/engine/cache/fixtures.hpp"

/// Every quantiser through a whole cache: streaming, bytes, products with queries, biased keys.
namespace dgap::engine {
namespace {

using schemas::GroupAxis;
using schemas::Quantizer;
using schemas::RotationKind;
using schemas::Scheme;
using schemas::SketchKind;
using schemas::TensorScheme;
using testing::custom;
using testing::read_keys;
using testing::read_values;
using testing::stored;
using testing::Stream;

struct Case {
  TensorScheme tensor;
  double bits_per_element;  // at head_dim 64
};

TensorScheme turboquant(Quantizer quantizer, int bits, RotationKind rotation) {
  return {.bits = bits, .quantizer = quantizer, .rotate = true, .rotation = rotation};
}
TensorScheme block(Quantizer quantizer, int bits) {
  return {.bits = bits, .quantizer = quantizer, .group_size = 32};
}
TensorScheme tile(int bits, GroupAxis axis) {
  return {.bits = bits,
          .quantizer = Quantizer::kvarn,
          .axis = axis,
          .group_size = 16,
          .rotate = true,
          .rotation = RotationKind::hadamard};
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {block(Quantizer::q8_0, 8), 8.5},
      {block(Quantizer::q4_0, 4), 4.5},
      {block(Quantizer::q4_1, 4), 5.0},
      {block(Quantizer::q5_0, 5), 5.5},
      {block(Quantizer::q5_1, 5), 6.0},
      {block(Quantizer::iq4_nl, 4), 4.5},
      {{.bits = 8, .quantizer = Quantizer::fp8_e4m3}, 8.0},
      {{.bits = 8, .quantizer = Quantizer::fp8_e5m2, .scale = 0.5f}, 8.0},
      {{.bits = 3, .quantizer = Quantizer::asymmetric, .group_size = 32}, 4.0},
      {{.bits = 3, .quantizer = Quantizer::symmetric}, 3.25},
      {{.bits = 3, .quantizer = Quantizer::lloyd_max, .rotate = true}, 3.25},
      {{.bits = 4, .quantizer = Quantizer::normal_float, .group_size = 16}, 5.0},
      {{.bits = 3,
        .quantizer = Quantizer::asymmetric,
        .axis = GroupAxis::channel,
        .group_size = 16},
       5.0},
      {tile(4, GroupAxis::channel), 4 + 16.0 * (2 * 64 + 16) / (64 * 16)},
      {tile(2, GroupAxis::token), 2 + 16.0 * (64 + 2 * 16) / (64 * 16)}};
  for (const int bits : {1, 2, 3, 4}) {
    all.push_back({turboquant(Quantizer::turboquant_mse, bits, RotationKind::haar), bits + 0.25});
    all.push_back(
        {turboquant(Quantizer::turboquant_prod, bits, RotationKind::signed_hadamard), bits + 0.5});
  }
  for (const int bits : {2, 3}) {  // "2.5" and "3.5": a quarter of the channels has one bit more
    TensorScheme tensor = turboquant(Quantizer::turboquant_mse, bits, RotationKind::haar);
    tensor.outlier_bits = bits + 1;
    all.push_back({tensor, bits + 0.25 + 0.5});
  }
  return all;
}

bool is_sketch(const TensorScheme& tensor) {
  return tensor.quantizer == Quantizer::turboquant_prod;
}
/// Twice the distortion of one bit less: a Gaussian sketch multiplies it by pi / 2.
double sketch_error(int bits) {
  return 2 * std::array{1.0, 0.36, 0.115, 0.034}[static_cast<std::size_t>(bits - 1)];
}

std::string shown(const TensorScheme& tensor) {
  return schemas::to_json(custom(tensor, 0, 0)).at("key").dump();
}

const CacheShape kShape{2, 2, 64, 10000.0};

TEST(Codecs, FeedingByOneByBlocksAndAtOnceStoresTheSame) {
  const Stream stream(kShape, 131);
  for (const Case& c : cases()) {
    const auto run = [&](std::int64_t block, std::size_t threads) {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
      const auto prefix = stream.exact(37);
      QuantizedCache cache(custom(c.tensor, 5, 3), *prefix, 37);
      for (std::int64_t t = 37; t < 131; t += block)
        stream.feed(cache, t, std::min<std::int64_t>(t + block, 131));
      auto all = stored(cache);
      const std::int64_t end = 3 + cache.raw_key(1, 1).tokens;
      EXPECT_GT(end, 3 + 3 * 16) << shown(c.tensor);
      for (const auto& reads : {read_keys(cache, 1, 1, Copy::quantized, 3, end),
                                read_values(cache, 1, 1, Copy::quantized, 3, end)}) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(reads.data());
        all.emplace_back(bytes, bytes + reads.size() * sizeof(float));
      }
      return all;
    };
    const auto one = run(1, 1);
    EXPECT_EQ(one, run(7, 2)) << shown(c.tensor);
    EXPECT_EQ(one, run(94, 4)) << shown(c.tensor);
  }
}

TEST(Codecs, AnyRangeReadsTheSame) {
  const Stream stream(kShape, 120);
  const auto prefix = stream.exact(120);
  for (const Case& c : cases()) {
    const QuantizedCache cache(custom(c.tensor, 0, 0), *prefix, 120);
    const std::int64_t end = cache.raw_key(0, 1).tokens;
    const std::vector<float> all = read_keys(cache, 0, 1, Copy::quantized, 0, end);
    for (std::int64_t from = 0; from < end; from += 11)
      for (std::int64_t to = from; to <= end; to += 7)
        ASSERT_EQ(read_keys(cache, 0, 1, Copy::quantized, from, to),
                  std::vector<float>(all.begin() + from * 64, all.begin() + to * 64))
            << shown(c.tensor);
  }
}

TEST(Codecs, BitsPerElementFollowTheFormulas) {
  const Stream stream(kShape, 161);
  const auto prefix = stream.exact(161);
  for (const Case& c : cases()) {
    const QuantizedCache cache(custom(c.tensor, 0, 0), *prefix, 161);
    const CacheBytes bytes = cache.bytes();
    const auto bits = [](std::int64_t stored_bytes, std::int64_t elements) {
      return 8 * static_cast<double>(stored_bytes) / static_cast<double>(elements);
    };
    EXPECT_EQ(bits(bytes.code_bytes_key, bytes.elements_key), c.bits_per_element)
        << shown(c.tensor);
    EXPECT_EQ(bits(bytes.code_bytes_value, bytes.elements_value), c.bits_per_element)
        << shown(c.tensor);
    std::int64_t constant = 0;  // per head and tensor: a scale of fp8, sixteen outlier indices
    if (c.tensor.quantizer == Quantizer::fp8_e4m3) constant = 4;
    if (c.tensor.outlier_bits != 0) constant = 2 * 16;
    const std::int64_t exact = 161 - cache.raw_key(0, 0).tokens;
    EXPECT_EQ(bytes.total_bytes_key, bytes.code_bytes_key + 4 * (2 * 64 * exact + constant))
        << shown(c.tensor);
  }
}

/// Scores of rotated queries with what is read are those of the queries with the restored keys, and
/// near those with the exact ones.
TEST(Codecs, ProductsWithQueriesAreNearTheExactOnes) {
  const CacheShape shape{1, 1, 64, 10000.0};
  const Stream stream(shape, 160);
  const auto prefix = stream.exact(160);
  base::Random random(3, "queries");
  for (const Case& c : cases()) {
    if (c.tensor.bits < 2) continue;
    const QuantizedCache cache(custom(c.tensor, 0, 0), *prefix, 160);
    const std::int64_t rows = cache.raw_key(0, 0).tokens;
    const std::vector<float> keys = read_keys(cache, 0, 0, Copy::quantized, 0, rows);
    const std::vector<float> exact = read_keys(*prefix, 0, 0, Copy::exact, 0, rows);
    double error = 0, size = 0;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> query(64);
      for (float& x : query) x = static_cast<float>(random.normal());
      std::vector<float> turned = query;
      cache.rotate_queries(0, 0, 1, turned.data());
      for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
        double got = 0, want = 0;
        for (std::size_t j = 0; j < 64; ++j) {
          got += static_cast<double>(turned[j]) * static_cast<double>(keys[t * 64 + j]);
          want += static_cast<double>(query[j]) * static_cast<double>(exact[t * 64 + j]);
        }
        error += (got - want) * (got - want), size += want * want;
      }
    }
    // in power; 8 bits: two bits of mantissa, 2^-6 / 12 and a bit at worst
    const double bound = is_sketch(c.tensor)  ? sketch_error(c.tensor.bits)
                         : c.tensor.bits >= 8 ? 0.005
                         : c.tensor.bits >= 4 ? 0.06
                         : c.tensor.bits == 3 ? 0.2
                                              : 0.7;
    EXPECT_LT(error / size, bound) << shown(c.tensor);
  }
}

std::vector<float> unit_rows(int width, std::size_t rows, std::uint64_t seed) {
  base::Random random(seed, "unit rows");
  std::vector<float> x(rows * static_cast<std::size_t>(width));
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    std::vector<double> row(static_cast<std::size_t>(width));
    for (double& v : row) v = random.normal(), squares += v * v;
    for (std::size_t c = 0; c < row.size(); ++c)
      x[r * row.size() + c] = static_cast<float>(row[c] / std::sqrt(squares));
  }
  return x;
}

std::vector<float> through(const Codec& codec, std::int64_t rows, const std::vector<float>& x) {
  const Codec::Layout& layout = codec.layout();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows) * layout.row_bytes);
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(rows) * layout.scales);
  std::vector<float> out(x.size());
  codec.encode({}, rows, x.data(), codes.data(), scales.data(), nullptr);
  codec.decode({}, 0, rows, codes.data(), scales.data(), nullptr, out.data());
  return out;
}

/// The exact distortions of unit vectors: E||x - x~||^2.
TEST(TurboQuant, DistortionIsThatOfTheSphere) {
  const std::vector<std::pair<int, std::vector<double>>> tables = {
      {128, {.3609, .1160, .03397, .00931}}, {64, {.3584, .1145, .0334, .00913}}};
  constexpr std::int64_t kRows = 4000;
  for (const auto& [width, distortions] : tables)
    for (int bits = 1; bits <= 4; ++bits) {
      const auto codec =
          make_codec(turboquant(Quantizer::turboquant_mse, bits, RotationKind::haar), width, 0);
      const std::vector<float> x = unit_rows(width, kRows, 9), y = through(*codec, kRows, x);
      double error = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        error += static_cast<double>(x[i] - y[i]) * static_cast<double>(x[i] - y[i]);
      // 4000 vectors: a standard error below half a per cent
      EXPECT_NEAR(error / kRows / distortions[static_cast<std::size_t>(bits - 1)], 1.0, 0.015)
          << width << " " << bits;
    }
}

/// <x, x~> is <x, x> on average with the sketch, and (1 - D) <x, x> without.
TEST(TurboQuant, TheSketchRemovesTheBias) {
  constexpr std::int64_t kRows = 6000;
  for (const int width : {64, 128})
    for (const SketchKind sketch : {SketchKind::gaussian, SketchKind::orthonormal})
      for (const int bits : {1, 2, 4}) {
        TensorScheme tensor = turboquant(Quantizer::turboquant_prod, bits, RotationKind::haar);
        tensor.sketch = sketch;
        const auto codec = make_codec(tensor, width, 4);
        const std::vector<float> x = unit_rows(width, kRows, 2), y = through(*codec, kRows, x);
        double sum = 0, squares = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
          double product = 0;
          for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c)
            product += static_cast<double>(x[r * static_cast<std::size_t>(width) + c]) *
                       static_cast<double>(y[r * static_cast<std::size_t>(width) + c]);
          sum += product, squares += product * product;
        }
        const double mean = sum / kRows;
        const double deviation = std::sqrt((squares / kRows - mean * mean) / kRows);
        // A Gaussian S is one draw: the norms of its rows add about 1 / width
        const double of_sketch = sketch == SketchKind::gaussian ? 2.0 / width : 0.0;
        EXPECT_NEAR(mean, 1.0, 4 * deviation + of_sketch) << width << " " << bits;
      }
}

TEST(TurboQuant, TheEstimatorsFactor) {
  const auto factor = [](int width, SketchKind sketch) {
    TensorScheme tensor = turboquant(Quantizer::turboquant_prod, 2, RotationKind::haar);
    tensor.sketch = sketch;
    return SketchCodec(tensor, width, 0).factor();
  };
  EXPECT_NEAR(factor(128, SketchKind::orthonormal), 0.1105622, 5e-8);
  EXPECT_NEAR(factor(64, SketchKind::orthonormal), 0.1560535, 5e-8);
  EXPECT_NEAR(factor(128, SketchKind::gaussian), std::sqrt(std::acos(-1.0) / 2) / 128, 1e-9);
}

/// With norm correction what is read has the norm of what was stored.
TEST(TurboQuant, NormCorrectionKeepsNorms) {
  TensorScheme tensor = turboquant(Quantizer::turboquant_mse, 2, RotationKind::hadamard);
  tensor.norm_correction = true;
  const std::vector<float> x = unit_rows(128, 50, 1);
  const std::vector<float> y = through(*make_codec(tensor, 128, 0), 50, x);
  for (std::size_t r = 0; r < 50; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < 128; ++c)
      squares += static_cast<double>(y[r * 128 + c]) * static_cast<double>(y[r * 128 + c]);
    EXPECT_NEAR(std::sqrt(squares), 1.0, 0x1p-10);  // the norm is an FP16 number
  }
}

TEST(TurboQuant, OutlierChannelsAreThoseOfTheLargestRms) {
  TensorScheme tensor = turboquant(Quantizer::turboquant_mse, 2, RotationKind::haar);
  tensor.outlier_bits = 4;
  const Outliers outliers(tensor, 32, 0, 10, [](std::int64_t from, std::int64_t to, float* out) {
    for (std::int64_t t = from; t < to; ++t)
      for (int c = 0; c < 32; ++c) *out++ = c % 4 == 1 ? -9.0f : 1.0f;
  });
  std::vector<std::uint16_t> expected;
  for (std::uint16_t c = 1; c < 32; c = static_cast<std::uint16_t>(c + 4)) expected.push_back(c);
  for (std::uint16_t c = 0; c < 32; ++c)
    if (c % 4 != 1) expected.push_back(c);
  EXPECT_EQ(outliers.order(), expected);
  std::vector<float> x(64), y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  y = x;
  outliers.first(2, y.data());
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[8], 0.0f);
  EXPECT_EQ(y[32], 33.0f);
  outliers.back(2, y.data());
  EXPECT_EQ(y, x);
}

TEST(Fp8, TheScaleComesFromThePrefix) {
  const Stream stream(kShape, 80);
  const auto prefix = stream.exact(80);
  const QuantizedCache cache(custom({.bits = 8, .quantizer = Quantizer::fp8_e4m3}, 0, 4), *prefix,
                             80);
  for (int head = 0; head < 2; ++head) {
    float top = 0;
    for (const float x : read_keys(*prefix, 1, head, Copy::exact, 4, 80))
      top = std::max(top, std::fabs(x));
    ASSERT_EQ(cache.raw_key(1, head).parameters.size(), 1u);
    EXPECT_EQ(cache.raw_key(1, head).parameters[0], top / 448.0f);
  }
  const QuantizedCache fixed(
      custom({.bits = 8, .quantizer = Quantizer::fp8_e4m3, .scale = 2.0f}, 0, 4), *prefix, 80);
  EXPECT_TRUE(fixed.raw_key(0, 0).parameters.empty());
}

/// Keys as Qwen2's biases make them: channel means a hundred times the spread.
// bf16 has 8 bits of mantissa: too few for a small deviation from a large mean.
TEST(BiasedKeys, AreReadFinely) {
  const CacheShape shape{1, 1, 64, 10000.0};
  Stream stream(shape, 200);
  base::Random random(9, "bias");
  for (float& x : stream.keys[0]) x = static_cast<float>(random.normal());
  const auto fine = [&](const char* name) {
    return QuantizedCache(schemas::preset(name), *stream.exact(200), 200).fine_keys(0, 0);
  };
  for (const char* name : {"K1V1", "K2V2", "uniform-K4V4", "rotated-K1V1", "llamacpp-q4_0"})
    EXPECT_FALSE(fine(name)) << name;
  for (const char* name : {"K4V4", "K8V8", "kivi-2", "kivi-4", "kvarn-k4v2", "llamacpp-q8_0"})
    EXPECT_TRUE(fine(name)) << name;
  for (std::size_t i = 5; i < stream.keys[0].size(); i += 64) stream.keys[0][i] += 100.0f;
  for (const char* name : {"K1V1", "K2V2"}) EXPECT_TRUE(fine(name)) << name;
}

TEST(BiasedKeys, CentringBeforeRopeSavesEveryQuantizer) {
  const CacheShape shape{1, 1, 64, 10000.0};
  Stream stream(shape, 200);
  base::Random random(8, "bias");
  std::vector<float> bias(64);
  for (float& b : bias) b = static_cast<float>(random.below(8) == 0 ? 300 * random.normal() : 0);
  bias[5] = 400.0f;
  for (std::size_t i = 0; i < stream.keys[0].size(); ++i)
    stream.keys[0][i] = bias[i % 64] + static_cast<float>(random.normal());
  const auto prefix = stream.exact(200);
  for (Case c : cases()) {
    if (c.tensor.quantizer == Quantizer::fp8_e5m2) continue;  // two bits of mantissa, fixed scale
    c.tensor.center = true;
    Scheme scheme = custom(c.tensor, 0, 4);
    scheme.key_before_rope = true;
    const QuantizedCache cache(scheme, *prefix, 200);
    const std::int64_t end = 4 + cache.raw_key(0, 0).tokens;
    const std::vector<float> keys = read_keys(cache, 0, 0, Copy::quantized, 4, end);
    const std::vector<float> exact = read_keys(*prefix, 0, 0, Copy::exact, 4, end);
    double error = 0;
    for (std::size_t i = 0; i < keys.size(); ++i)
      error += static_cast<double>(keys[i] - exact[i]) * static_cast<double>(keys[i] - exact[i]);
    error /= static_cast<double>(keys.size());  // of a spread of 1; FP16 of 400 is off by 2^-3 / 2
    const double bound = is_sketch(c.tensor)  ? sketch_error(c.tensor.bits)
                         : c.tensor.bits == 1 ? 0.8
                                              : 0.3;
    EXPECT_LT(error, bound) << shown(c.tensor);
  }
}

}  // namespace
}  // namespace dgap::engine
