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
      const ExactTokens at_first = cache.exact_tokens(cache.view(0, head), first);
      const ExactTokens at_last = cache.exact_tokens(cache.view(0, head), end - 1);
      const std::int64_t sinks = std::min(at_last.sinks, end);
      const auto read_all = [&](auto read, std::vector<float>* to, std::int64_t exact_from,
                                std::int64_t quantised_to) {
        const auto range = [&](Copy copy, std::int64_t from, std::int64_t until) {
          if (from < until)
            (cache.*read)(0, head, copy, from, until,
                          to[static_cast<std::size_t>(copy)].data() + from * kHeadDim);
        };
        range(Copy::exact, 0, sinks);
        range(Copy::quantized, sinks, std::min(quantised_to, end));
        range(Copy::exact, std::max(sinks, exact_from), end);
      };
      read_all(&KvCache::read_keys, keys, at_first.keys, at_last.keys);
      read_all(&KvCache::read_values, values, at_first.values, at_last.values);
    }
    std::vector<float> keys[2], values[2];
  };

  std::vector<double> reference(const Stored& stored, std::int64_t position, int head) const {
    const int kv_head = head / (kHeads / kKvHeads);
    std::vector<float> query[2] = {std::vector<float>(kHeadDim), {}};
    rope_.apply(position, 1, queries_.data() + (position * kHeads + head) * kHeadDim, kHeadDim,
                query[0].data());
    query[1] = query[0];
    if (cache_->rotates_queries(0, kv_head)) cache_->rotate_queries(0, kv_head, 1, query[1].data());
    const ExactTokens exact = cache_->exact_tokens(cache_->view(0, kv_head), position);
    double mass[2] = {}, sums[2][kHeadDim] = {};  // by the values' copy
    for (std::int64_t t = 0; t <= position; ++t) {
      const auto copy = [&](std::int64_t begin) {
        return std::size_t{t < exact.sinks || t >= begin ? 0u : 1u};
      };
      const std::size_t k = copy(exact.keys), v = copy(exact.values);
      const float* key = stored.keys[k].data() + t * kHeadDim;
      const float* value = stored.values[v].data() + t * kHeadDim;
      double score = 0;
      for (std::size_t i = 0; i < kHeadDim; ++i) score += double{query[k][i]} * key[i];
      const double weight = std::exp(score / std::sqrt(kHeadDim));
      mass[v] += weight;
      for (std::size_t i = 0; i < kHeadDim; ++i) sums[v][i] += weight * value[i];
    }
    const double total = mass[0] + mass[1];
    std::vector<float> restored(kHeadDim);
    for (std::size_t i = 0; i < kHeadDim; ++i) restored[i] = static_cast<float>(sums[1][i] / total);
    const auto share = static_cast<float>(mass[1] / total);
    if (share > 0) cache_->finish_values(0, kv_head, 1, &share, restored.data());
    std::vector<double> out(kHeadDim);
    for (std::size_t i = 0; i < kHeadDim; ++i) out[i] = sums[0][i] / total + restored[i];
    return out;
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
  using schemas::WindowRule;
  const std::pair<WindowRule, WindowRule> rules[] = {{WindowRule::sliding, WindowRule::sliding},
                                                     {WindowRule::flush, WindowRule::lagging},
                                                     {WindowRule::lagging, WindowRule::none},
                                                     {WindowRule::flush, WindowRule::flush}};
  for (const char* base : {"uniform-K2V2", "rotated-K2V2", "rotated-K16V2"})
    for (const auto& [keys, values] : rules)
      for (const int window : {32, 96}) {  // keys by channel, in groups of 32 tokens
        schemas::Scheme scheme = schemas::preset(base);
        scheme.name = "channels", scheme.family = "custom", scheme.residual_window = window;
        scheme.value.window = values;
        if (scheme.key.bits < 16) {
          scheme.key.axis = schemas::GroupAxis::channel, scheme.key.group_size = 32;
          scheme.key.quantizer = schemas::Quantizer::asymmetric, scheme.key.window = keys;
        }
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
