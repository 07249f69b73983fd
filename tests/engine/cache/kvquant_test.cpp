#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.hpp"
#include "base/sha256.hpp"
#include "engine/cache/kvquant_calibration.hpp"
#include "engine/cache/kvquant_codes.hpp"
#include "engine/cache/kvquant_row.hpp"
#include "engine/cache/level_fit.hpp"
#include "fixtures.hpp"
#include "tests/testing/message_of.hpp"
#include "tests/testing/temporary_folder.hpp"

namespace dgap::engine {
namespace {

using schemas::preset;
using schemas::Scheme;
using ::testing::HasSubstr;
using testing::Stream;

const CacheShape kShape{2, 2, 64, 10000.0};

/// A scheme with a calibration from the stream's own tokens, in a file.
class Kvquant : public ::testing::Test {
 protected:
  Scheme calibrated(const std::string& name, const std::string& file = "calibration.json") {
    Scheme scheme = preset(name);
    schemas::Calibration made;
    const auto tensor = [&](const schemas::TensorScheme& own, const std::vector<float>& x) {
      const auto width = stream_.row();
      return calibrate_kvquant(own, static_cast<int>(width), stream_.tokens,
                               [&](std::int64_t from, std::int64_t to, float* out) {
                                 std::copy(&x[static_cast<std::size_t>(from * width)],
                                           x.data() + to * width, out);
                               });
    };
    for (std::size_t layer = 0; layer < 2; ++layer)
      made.layers.push_back(
          {tensor(scheme.key, stream_.keys[layer]), tensor(scheme.value, stream_.values[layer])});
    const std::string bytes = schemas::encode_calibration(made);
    base::write_file_atomically(folder_ / file, bytes);
    scheme.calibration = (folder_ / file).string();
    scheme.calibration_sha256 = base::sha256_hex(bytes);
    return scheme;
  }
  std::unique_ptr<QuantizedCache> fed(const Scheme& scheme, std::int64_t block) const {
    auto cache = std::make_unique<QuantizedCache>(scheme, kShape);
    for (std::int64_t t = 0; t < stream_.tokens; t += block)
      stream_.feed(*cache, t, std::min(stream_.tokens, t + block));
    return cache;
  }
  static double mean_error(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    return sum / static_cast<double>(a.size());
  }

  testing::Stream stream_{kShape, 300};
  dgap::testing::TemporaryFolder folder_;
};

TEST_F(Kvquant, TokensOneByOneInBlocksAndAtOnceStoreTheSame) {
  const Scheme scheme = calibrated("kvquant-nuq3-1p");
  const auto whole = fed(scheme, 300);
  for (const std::int64_t block : {1, 7, 128}) {
    const auto parts = fed(scheme, block);
    for (int layer = 0; layer < 2; ++layer)
      for (const auto codes : {&QuantizedCache::layer_keys, &QuantizedCache::layer_values}) {
        const auto& a = dynamic_cast<const KvquantCodes&>(*((*whole).*codes)(layer));
        const auto& b = dynamic_cast<const KvquantCodes&>(*((*parts).*codes)(layer));
        EXPECT_EQ(a.size(), 299);
        EXPECT_TRUE(std::ranges::equal(a.codes(), b.codes()));
        EXPECT_TRUE(std::ranges::equal(a.ranges(), b.ranges()));
        EXPECT_TRUE(std::ranges::equal(a.row_ends(), b.row_ends()));
        EXPECT_TRUE(std::ranges::equal(a.channels(), b.channels()));
        EXPECT_TRUE(std::ranges::equal(a.outliers(), b.outliers()));
      }
  }
}

TEST_F(Kvquant, OutliersAndBitsBringReadsCloser) {
  double last = 1e9;
  for (const char* name :
       {"kvquant-nuq2", "kvquant-nuq2-1p", "kvquant-nuq3-1p", "kvquant-nuq4-1p"}) {
    const auto cache = fed(calibrated(name), 300);
    const auto exact = stream_.exact(300);
    const double error = mean_error(testing::read_keys(*cache, 0, 1, Copy::quantized, 1, 300),
                                    testing::read_keys(*exact, 0, 1, Copy::exact, 1, 300)) +
                         mean_error(testing::read_values(*cache, 1, 0, Copy::quantized, 1, 300),
                                    testing::read_values(*exact, 1, 0, Copy::exact, 1, 300));
    EXPECT_LT(error, last) << name;
    last = error;
  }
}

TEST_F(Kvquant, CountsWhatIsAllocated) {
  const CacheBytes dense = fed(calibrated("kvquant-nuq3"), 300)->bytes();
  EXPECT_DOUBLE_EQ(dense.bits_key(), 3.0);
  EXPECT_DOUBLE_EQ(dense.bits_value(), 3.0 + 32.0 / 128);
  const CacheBytes sparse = fed(calibrated("kvquant-nuq3-1p"), 300)->bytes();
  // One value at either end of 128, with its channel; a row end per token.
  EXPECT_DOUBLE_EQ(sparse.bits_value(), 3.0 + 32.0 / 128 + 2 * 32.0 / 128 + 32.0 / 128);
  EXPECT_NEAR(sparse.bits_key(), 3.0 + 0.01 * 32 + 32.0 / 128, 0.1);
  // Thresholds and levels of two layers, and one exact token.
  EXPECT_EQ(sparse.total_bytes_key - sparse.code_bytes_key, 2 * (4 * 128 + 4 * 8 + 2 * 128));
}

TEST_F(Kvquant, CalibrationsDoNotMix) {
  Scheme scheme = calibrated("kvquant-nuq3");
  scheme.calibration_sha256[0] = scheme.calibration_sha256[0] == '0' ? '1' : '0';
  EXPECT_THAT(dgap::testing::message_of([&] { QuantizedCache(scheme, kShape); }),
              HasSubstr("is not the calibration that the scheme was used with"));
  Scheme other = preset("kvquant-nuq4");
  other.calibration = calibrated("kvquant-nuq3").calibration;
  EXPECT_THAT(dgap::testing::message_of([&] { QuantizedCache(other, kShape); }),
              HasSubstr("is of another model, or of other bits"));
  EXPECT_THAT(dgap::testing::message_of([&] { QuantizedCache(preset("kvquant-nuq3"), kShape); }),
              HasSubstr("needs a calibration file"));
  const CacheShape wide{2, 4, 64, 10000.0};
  EXPECT_THAT(dgap::testing::message_of([&] { QuantizedCache(calibrated("kvquant-nuq3"), wide); }),
              HasSubstr("is of another model"));
}

TEST_F(Kvquant, LayersMayHaveOtherTensors) {
  Scheme scheme = calibrated("kvquant-nuq3-1p");
  scheme.overrides = {{.layers = {1}, .key = preset("uniform-K8V8").key}};
  const auto cache = fed(scheme, 50), plain = fed(calibrated("kvquant-nuq3-1p"), 50);
  EXPECT_EQ(cache->layer_keys(1), nullptr);
  EXPECT_EQ(testing::read_keys(*cache, 0, 1, Copy::quantized, 1, 300),
            testing::read_keys(*plain, 0, 1, Copy::quantized, 1, 300));
  EXPECT_LT(mean_error(testing::read_keys(*cache, 1, 0, Copy::quantized, 1, 290),
                       testing::read_keys(*stream_.exact(300), 1, 0, Copy::exact, 1, 290)),
            0.1);
}

TEST(KvquantRow, TakesExactlySoManyOutliersOfEitherEnd) {
  EXPECT_EQ(outliers_per_end(0.01, 192), 1);
  EXPECT_EQ(outliers_per_end(0.01, 1024), 6);
  EXPECT_EQ(outliers_per_end(0.01, 4096), 21);
  EXPECT_EQ(outliers_per_end(0.0, 4096), 0);
  std::vector<std::uint8_t> marks;
  const std::vector<float> equal(8, 3.0f);
  const RowRange range = mark_outliers(equal, 1, marks);
  EXPECT_EQ(marks, (std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(range.offset, 3.0f);
  EXPECT_EQ(range.scale, 0.0f);
}

TEST(LevelFit, FindsClustersAndKeepsTheirDeviation) {
  LevelFit fit;
  for (int i = 0; i < 1000; ++i) {
    const float jitter = 0.01f * static_cast<float>(i % 11 - 5);
    fit.add(-0.8f + jitter), fit.add(0.1f + jitter), fit.add(0.2f + jitter), fit.add(0.9f + jitter);
  }
  const std::vector<float> levels = fit.levels(4);
  EXPECT_NEAR(levels[0], -0.8f, 0.01f);
  EXPECT_NEAR(levels[1], 0.1f, 0.02f);
  EXPECT_NEAR(levels[2], 0.2f, 0.02f);
  EXPECT_NEAR(levels[3], 0.9f, 0.01f);
  const std::vector<float> two = fit.levels(2), reads = fit.normalised_reads(two);
  EXPECT_GT(reads[1] - reads[0], two[1] - two[0]);  // codes alone lose deviation
}

TEST(LevelFit, WeighsTheSample) {
  LevelFit fit;
  fit.add(-0.5f, 1.0), fit.add(0.5f, 3.0);
  EXPECT_NEAR(fit.levels(1)[0], 0.25f, 1e-6f);
  EXPECT_EQ(LevelFit().levels(2), (std::vector<float>{-0.5f, 0.5f}));
}

TEST(LayerScale, IsTheLargestOfTheHeads) {
  const CacheShape shape{2, 3, 64, 10000.0};
  const Stream stream(shape, 100);
  const auto prefix = stream.exact(100);
  const QuantizedCache own(preset("vllm-fp8-per_head"), *prefix, 100);
  const QuantizedCache shared(preset("vllm-fp8"), *prefix, 100);
  for (int layer = 0; layer < 2; ++layer)
    for (const auto raw : {&QuantizedCache::raw_key, &QuantizedCache::raw_value}) {
      float top = 0.0f;
      for (int head = 0; head < 3; ++head)
        top = std::max(top, (own.*raw)(layer, head).parameters[0]);
      for (int head = 0; head < 3; ++head) EXPECT_EQ((shared.*raw)(layer, head).parameters[0], top);
    }
  EXPECT_EQ(own.bytes().total_bytes_key - own.bytes().code_bytes_key, 2 * 3 * 4);
  EXPECT_EQ(shared.bytes().total_bytes_key - shared.bytes().code_bytes_key, 2 * 4);
}

TEST(BoundaryLayers, AreExact) {
  const CacheShape shape{6, 2, 64, 10000.0};
  const Stream stream(shape, 120);
  const auto prefix = stream.exact(100);
  QuantizedCache cache(preset("vllm-k8v4"), *prefix, 100);
  stream.feed(cache, 100, 120);
  for (int layer = 0; layer < 6; ++layer) {
    const bool boundary = layer < 2 || layer >= 4;
    EXPECT_EQ(cache.raw_key(layer, 1).codes.empty(), boundary) << layer;
    EXPECT_EQ(cache.raw_value(layer, 0).codes.empty(), boundary) << layer;
  }
  const CacheShape few{4, 2, 64, 10000.0};
  EXPECT_THAT(dgap::testing::message_of([&] { QuantizedCache(preset("vllm-k8v4"), few); }),
              HasSubstr("leaves none of the model's 4 layers quantised"));
}

}  // namespace
}  // namespace dgap::engine
