#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/cache/exact_cache.hpp"
#include "engine/cache/head_tensor.hpp"
#include "engine/cache/kv_cache.hpp"
#include "engine/cache/window.hpp"

namespace dgap::engine {

/// A quantised continuation of an exact prefix (docs/schemes.md). The state after construction is
/// that of a cache whose newest row is position length - 1. The prefix's exact keys and values are
/// shared, not copied: it must outlive the cache.
class QuantizedCache final : public KvCache {
 public:
  /// UsageError when the scheme does not fit the model; FailedError when the prefix is shorter than
  /// `length` or lacks the keys before RoPE that the scheme starts from.
  QuantizedCache(const schemas::Scheme& scheme, const ExactCache& prefix, std::int64_t length);
  /// A cache of its own, from the first token on.
  QuantizedCache(const schemas::Scheme& scheme, const CacheShape& shape);
  QuantizedCache(const QuantizedCache&) = delete;
  QuantizedCache& operator=(const QuantizedCache&) = delete;

  const CacheShape& shape() const override { return prefix_.shape(); }
  std::int64_t length() const override { return heads_.back().value.length(); }
  int views() const override { return static_cast<int>(views_.size()); }
  int view(int layer, int head) const override { return at(layer, head).view; }
  ExactTokens exact_tokens(int view, std::int64_t position) const override;
  std::int64_t block_limit() const override;

  void append(int layer, std::int64_t tokens, const float* keys, const float* values) override;
  void read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                 float* out) const override;
  void read_values(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                   float* out) const override;
  bool fine_keys(int layer, int head) const override { return at(layer, head).fine_keys; }
  bool rotates_queries(int layer, int head) const override {
    return at(layer, head).rotates_queries;
  }
  void rotate_queries(int layer, int head, std::int64_t rows, float* queries) const override;
  void finish_values(int layer, int head, std::int64_t rows, const float* mass,
                     float* sums) const override;
  CacheBytes bytes() const override;

  /// What one tensor of one layer and head stores, for tests and tools.
  struct Raw {
    std::int64_t first = 0, tokens = 0;  // tokens [first, first + tokens) are codes
    std::span<const std::uint8_t> codes;
    std::span<const std::uint16_t> scales, minima;
    std::span<const float> mean, rms;
    std::span<const float> parameters;          // the codec's
    std::span<const std::uint16_t> order = {};  // of channels, where outliers come first
  };
  /// Of codes that span heads, which Raw has none of: null, or the layer's.
  const LayerCodes* layer_keys(int layer) const { return layer_at(layer).keys.get(); }
  const LayerCodes* layer_values(int layer) const { return layer_at(layer).values.get(); }
  Raw raw_key(int layer, int head) const { return raw(at(layer, head).key); }
  Raw raw_value(int layer, int head) const { return raw(at(layer, head).value); }

 private:
  struct Head {
    HeadTensor key, value;
    int view;
    bool key_before_rope, rotates_queries;
    bool fine_keys = true;  // known when the key has its statistics
  };
  struct Layer {
    std::unique_ptr<LayerCodes> keys, values;  // where codes span heads
  };
  struct View {
    std::int64_t sinks = 0;
    Window keys, values;
    bool operator==(const View&) const = default;
  };
  QuantizedCache(const schemas::Scheme& scheme, std::unique_ptr<const ExactCache> prefix);
  const Head& at(int layer, int head) const;
  const Layer& layer_at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  Raw raw(const HeadTensor& tensor) const;
  /// The plan of heads with this tensor, which they share.
  const HeadTensor::Plan& plan(const schemas::TensorScheme& tensor);
  int find_view(const View& view);
  Head make_head(int layer, int head);
  Layer make_layer(int layer) const;
  /// Parameters of the codecs of one head, or, with layer_scale, of a layer's heads together.
  void calibrate(int layer, HeadTensor Head::*tensor);
  /// Quantises what has left the windows of a layer whose codes span its heads.
  void advance_layer(int layer);
  void advance_codes(LayerCodes* codes, int layer, HeadTensor Head::*tensor);
  void append_head(Head& head, std::int64_t tokens, const float* keys, const float* values);

  schemas::Scheme scheme_;
  std::unique_ptr<const ExactCache> own_prefix_;  // empty, where the cache continues no other
  const ExactCache& prefix_;
  std::int64_t prefix_length_;
  RopeTable rope_;
  std::shared_ptr<const schemas::Calibration> calibration_;  // where the scheme needs one
  std::deque<HeadTensor::Plan> plans_;
  std::vector<Layer> layers_;
  std::vector<View> views_;
  std::vector<Head> heads_;  // [layers, kv_heads]
};

}  // namespace dgap::engine
