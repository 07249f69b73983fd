#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "engine/cache/exact_cache.hpp"
#include "engine/cache/quantized_cache.hpp"

/// Keys and values of a made-up model: biased channels, channels of their own size, outliers, one
/// constant channel.
namespace dgap::engine::testing {

struct Stream {
  CacheShape shape;
  std::int64_t tokens = 0;
  std::vector<std::vector<float>> keys, values;  // per layer [tokens, kv_heads, head_dim]

  Stream(const CacheShape& of, std::int64_t count, std::uint64_t seed = 1)
      : shape(of), tokens(count) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      keys.push_back(make(seed, 2 * layer));
      values.push_back(make(seed, 2 * layer + 1));
    }
  }

  const float* key(int layer, std::int64_t token) const {
    return keys[index(layer)].data() + token * row();
  }
  const float* value(int layer, std::int64_t token) const {
    return values[index(layer)].data() + token * row();
  }
  std::int64_t row() const { return std::int64_t{shape.kv_heads} * shape.head_dim; }

  /// Tokens [from, to) to every layer, in one block.
  void feed(KvCache& cache, std::int64_t from, std::int64_t to) const {
    for (int layer = 0; layer < shape.layers; ++layer)
      cache.append(layer, to - from, key(layer, from), value(layer, from));
  }
  /// The exact cache of the first `length` tokens.
  std::unique_ptr<ExactCache> exact(std::int64_t length,
                                    ExactCacheType type = ExactCacheType::f16) const {
    auto cache = make_exact_cache(shape, type, length, true);
    feed(*cache, 0, length);
    return cache;
  }

 private:
  static std::size_t index(int layer) { return static_cast<std::size_t>(layer); }
  std::vector<float> make(std::uint64_t seed, int which) const {
    base::Random random(seed, "tensor " + std::to_string(which));
    const auto channels = static_cast<std::size_t>(row());
    std::vector<double> mean(channels), size(channels);
    for (std::size_t c = 0; c < channels; ++c)
      mean[c] = 2 * random.normal(), size[c] = 0.1 + random.uniform();
    size[1] = 0;
    std::vector<float> x;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::size_t c = 0; c < channels; ++c) {
        const double outlier = random.below(200) == 0 ? 20 : 1;
        x.push_back(static_cast<float>(mean[c] + outlier * size[c] * random.normal()));
      }
    return x;
  }
};

inline std::vector<float> read_keys(const KvCache& cache, int layer, int head, Copy copy,
                                    std::int64_t from, std::int64_t to) {
  std::vector<float> out(static_cast<std::size_t>((to - from) * cache.shape().head_dim));
  cache.read_keys(layer, head, copy, from, to, out.data());
  return out;
}
inline std::vector<float> read_values(const KvCache& cache, int layer, int head, Copy copy,
                                      std::int64_t from, std::int64_t to) {
  std::vector<float> out(static_cast<std::size_t>((to - from) * cache.shape().head_dim));
  cache.read_values(layer, head, copy, from, to, out.data());
  return out;
}

/// Everything that a cache stores, to compare caches byte by byte.
inline std::vector<std::vector<std::uint8_t>> stored(const QuantizedCache& cache) {
  std::vector<std::vector<std::uint8_t>> all;
  const auto add = [&](auto span) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(span.data());
    all.emplace_back(bytes, bytes + span.size_bytes());
  };
  for (int layer = 0; layer < cache.shape().layers; ++layer)
    for (int head = 0; head < cache.shape().kv_heads; ++head)
      for (const auto& raw : {cache.raw_key(layer, head), cache.raw_value(layer, head)}) {
        add(raw.codes), add(raw.scales), add(raw.minima), add(raw.mean), add(raw.rms);
      }
  return all;
}

/// A scheme of one tensor setting for both K and V.
inline schemas::Scheme custom(const schemas::TensorScheme& tensor, int window, int sinks) {
  schemas::Scheme scheme;
  scheme.name = "custom";
  scheme.family = "custom";
  scheme.key = scheme.value = tensor;
  scheme.residual_window = window;
  scheme.sink_tokens = sinks;
  return scheme;
}

}  // namespace dgap::engine::testing
