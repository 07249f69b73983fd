// Attention over the real caches, past several windows and groups, against sums in f64 over what
// the cache gives for each row and token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "engine/backend/cpu/attention.hpp"
#include "engine/cache/exact_cache.hpp"
#include "schemas/scheme/scheme.hpp"
#include "tests/engine/backend/isas.hpp"

namespace dgap::engine {
namespace {

constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 32;
constexpr std::int64_t kPrefix = 150, kTokens = 700, kBlock = 110;

std::vector<float> normals(std::int64_t count, const char* purpose) {
  base::Random random(21, purpose);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

class CacheAttention {
 public:
  explicit CacheAttention(const schemas::Scheme& scheme)
      : shape_{1, kKvHeads, kHeadDim, 10000.0},
        rope_(kHeadDim, shape_.rope, kTokens),
        keys_(normals(kTokens * kKvHeads * kHeadDim, "keys")),
        values_(normals(kTokens * kKvHeads * kHeadDim, "values")),
        queries_(normals(kTokens * kHeads * kHeadDim, "queries")),
        prefix_(make_exact_cache(shape_, ExactCacheType::f16, kTokens, true)) {
    prefix_->append(0, kPrefix, keys_.data(), values_.data());
    cache_ = make_quantized_cache(scheme, *prefix_, kPrefix);
  }

  /// Appends rows [first, first + rows) and returns the largest error of their attention.
  double append(const AttentionKernel& kernel, std::int64_t first, std::int64_t rows) {
    const Attention attention(kHeads, shape_, kernel);
    const Attention::Plan plan(attention, *cache_, first, rows);
    const std::int64_t kv = kKvHeads * kHeadDim, width = kHeads * kHeadDim;
    cache_->append(0, rows, keys_.data() + first * kv, values_.data() + first * kv);
    Activations out(Compute::f32, width);
    out.reserve(rows);
    Attention::Workspace workspace;
    attention.run(plan, *cache_, rope_, 0, queries_.data() + first * width, out, workspace);
    double worst = 0;
    for (int h = 0; h < kHeads; ++h) {
      const Stored stored(*cache_, h / (kHeads / kKvHeads), first, first + rows);
      for (std::int64_t r = 0; r < rows; r += 7) {
        const std::vector<double> expected = reference(stored, first + r, h);
        const float* ours = static_cast<const float*>(out.row(r)) + h * kHeadDim;
        for (std::size_t i = 0; i < kHeadDim; ++i)
          worst = std::max(worst, std::abs(ours[i] - expected[i]));
      }
    }
    return worst;
  }

 private:
  /// What rows [first, end) may see of one head: both copies of [0, end).
  struct Stored {
    Stored(const KvCache& cache, int head, std::int64_t first, std::int64_t end) {
      for (auto* copies : {&keys, &values})
        for (auto& rows : *copies) rows.resize(static_cast<std::size_t>(end * kHeadDim));
      const auto read = [&](Copy copy, std::int64_t from, std::int64_t to) {
        if (from >= to) return;
        const auto c = static_cast<std::size_t>(copy);
        cache.read_keys(0, head, copy, from, to, keys[c].data() + from * kHeadDim);
        cache.read_values(0, head, copy, from, to, values[c].data() + from * kHeadDim);
      };
      const std::int64_t sinks = std::min(cache.sinks(), end);
      read(Copy::exact, 0, sinks);
      read(Copy::quantized, sinks, cache.exact_begin(end - 1));
      read(Copy::exact, std::max(sinks, cache.exact_begin(first)), end);
    }
    std::vector<float> keys[2], values[2];
  };

  struct Part {
    std::vector<float> query;
    double mass = 0;
    std::vector<double> sums = std::vector<double>(kHeadDim);
  };

  std::vector<double> reference(const Stored& stored, std::int64_t position, int head) const {
    const int kv_head = head / (kHeads / kKvHeads);
    Part exact, quantized;
    exact.query.resize(kHeadDim);
    rope_.apply(position, 1, queries_.data() + (position * kHeads + head) * kHeadDim, kHeadDim,
                exact.query.data());
    quantized.query = exact.query;
    if (cache_->rotates_queries()) cache_->rotate_queries(0, kv_head, 1, quantized.query.data());
    for (std::int64_t t = 0; t <= position; ++t) {
      const bool is_exact = t < cache_->sinks() || t >= cache_->exact_begin(position);
      const auto copy = static_cast<std::size_t>(is_exact ? Copy::exact : Copy::quantized);
      add_token(stored.keys[copy].data() + t * kHeadDim, stored.values[copy].data() + t * kHeadDim,
                is_exact ? exact : quantized);
    }
    const double total = exact.mass + quantized.mass;
    std::vector<float> sums(kHeadDim);
    for (std::size_t i = 0; i < kHeadDim; ++i)
      sums[i] = static_cast<float>(quantized.sums[i] / total);
    const auto share = static_cast<float>(quantized.mass / total);
    if (quantized.mass > 0) cache_->finish_values(0, kv_head, 1, &share, sums.data());
    for (std::size_t i = 0; i < kHeadDim; ++i) exact.sums[i] = exact.sums[i] / total + sums[i];
    return exact.sums;
  }

  static void add_token(const float* key, const float* value, Part& part) {
    double score = 0;
    for (std::size_t i = 0; i < kHeadDim; ++i) score += double{part.query[i]} * key[i];
    const double weight = std::exp(score / std::sqrt(kHeadDim));
    part.mass += weight;
    for (std::size_t i = 0; i < kHeadDim; ++i) part.sums[i] += weight * value[i];
  }

  CacheShape shape_;
  RopeTable rope_;
  std::vector<float> keys_, values_, queries_;
  std::unique_ptr<ExactCache> prefix_;
  std::unique_ptr<KvCache> cache_;
};

std::vector<schemas::Scheme> schemes() {
  std::vector<schemas::Scheme> list;
  const std::string families[] = {"centred-", "rotated-", "uniform-"};
  for (const std::string& family : families)
    for (const char* bits : {"K1V1", "K1V4", "K2V2", "K4V1", "K4V4", "K8V8", "K16V2", "K2V16"})
      for (const char* window : {"", "-R32-S4", "-R128-S7"})
        list.push_back(schemas::preset(family + bits + window));
  for (const int window : {0, 32, 96}) {  // keys by channel, in groups of 32 tokens
    schemas::Scheme scheme = schemas::preset("uniform-K2V2");
    scheme.name = "channels", scheme.family = "custom", scheme.residual_window = window;
    scheme.key.axis = schemas::GroupAxis::channel, scheme.key.group_size = 32;
    scheme.key.quantizer = schemas::Quantizer::asymmetric;
    list.push_back(scheme);
  }
  list.push_back(schemas::preset("exact"));
  return list;
}

TEST(AttentionOverCaches, EqualsTheSumsInF64) {
  for (const schemas::Scheme& scheme : schemes())
    for (const Compute compute : {Compute::f32, Compute::bf16}) {
      const AttentionKernel& kernel = attention_kernel(detected_isa(), compute);
      CacheAttention cache(scheme);
      for (std::int64_t first = kPrefix; first < kTokens; first += kBlock) {
        const std::int64_t rows = std::min(kBlock, kTokens - first);
        EXPECT_LT(cache.append(kernel, first, rows), kernel.natural ? 2e-5 : 1.2e-2)
            << scheme.name << " R" << scheme.residual_window << " from " << first << ", "
            << kernel.name;
      }
    }
}

}  // namespace
}  // namespace dgap::engine
