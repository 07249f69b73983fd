#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "engine/model/decoder.hpp"
#include "engine/model/rope_parameters.hpp"
#include "schemas/scheme/scheme.hpp"

/// Key/value caches of one sequence. The attention (engine/backend/cpu/attention) knows only this.
///
/// Layout of all arguments: [tokens, kv_heads, head_dim] f32 on append, [tokens, head_dim] f32 per
/// head on read. Channels are in the Hugging Face order (RoPE pairs i with i + head_dim / 2).
///
/// **Rows and copies.** What a row at position i of a head sees of token j <= i is said by
/// exact_tokens(view(layer, head), i), which is the whole of a scheme's window rules: the key is
/// exact where j < sinks or j >= keys, the value where j < sinks or j >= values; else they are
/// quantised. Both bounds are non-decreasing in i. An exact cache has bounds 0.
namespace dgap::engine {

struct CacheShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  RopeParameters rope = {};
};

/// Cosines and sines of RoPE for positions [0, capacity), computed in f64, stored f32.
class RopeTable;

enum class Copy { exact, quantized };

/// What a row sees exactly: keys and values of tokens below `sinks`, keys from `keys` on, values
/// from `values` on.
struct ExactTokens {
  std::int64_t sinks = 0, keys = 0, values = 0;
};

class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual const CacheShape& shape() const = 0;
  virtual std::int64_t length() const = 0;  // tokens whose last layer has been appended
  /// Heads with the same window rules share a view, 0 <= view < views().
  virtual int views() const = 0;
  virtual int view(int layer, int head) const = 0;
  virtual ExactTokens exact_tokens(int view, std::int64_t position) const = 0;

  /// The most tokens that the next append may have: where codes are made anew, rows before and
  /// after read other ones.
  virtual std::int64_t block_limit() const { return std::numeric_limits<std::int64_t>::max(); }

  /// Appends `tokens` tokens to one layer: keys before RoPE, values. Layers are appended in order,
  /// the same number of tokens each. Parallel over heads where that pays. After append, for every
  /// row of this block both copies that it may need are readable, until the next append to this
  /// layer.
  virtual void append(int layer, std::int64_t tokens, const float* keys, const float* values) = 0;

  /// Keys of [begin, end) after RoPE: the model's keys, but for quantised ones where
  /// rotates_queries. Copy::exact serves the sinks and what is exact to the first row of the last
  /// block; Copy::quantized what is quantised to its last row.
  virtual void read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                         float* out) const = 0;
  /// Values of [begin, end) in the copy's *value space* (see finish_values).
  virtual void read_values(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                           float* out) const = 0;

  /// True when a head's quantised keys are read in a rotated space: then the dot products with them
  /// need rotate_queries applied to a copy of the queries [rows, head_dim], in place.
  virtual bool rotates_queries(int layer, int head) const = 0;
  virtual void rotate_queries(int layer, int head, std::int64_t rows, float* queries) const = 0;
  /// True when rounding a head's quantised keys to bf16 would show beside their quantisation.
  virtual bool fine_keys(int layer, int head) const = 0;

  /// Turns sums over quantised values, sum_j p_j v_j [rows, head_dim], and their mass
  /// sum_j p_j [rows] into the model's space, in place: un-rotates and adds mass * mean.
  virtual void finish_values(int layer, int head, std::int64_t rows, const float* mass,
                             float* sums) const = 0;

  virtual CacheBytes bytes() const = 0;
};

/// The exact cache of a prefix and of the reference decode: FP16 (or f32 for comparisons).
class ExactCache;

std::unique_ptr<ExactCache> make_exact_cache(const CacheShape& shape, ExactCacheType type,
                                             std::int64_t capacity, bool keep_pre_rope);

/// A quantised continuation of the first `length` tokens of `prefix`.
std::unique_ptr<KvCache> make_quantized_cache(const schemas::Scheme& scheme,
                                              const ExactCache& prefix, std::int64_t length);
/// A quantised cache from the first token on: its prefill sees what it holds.
std::unique_ptr<KvCache> make_quantized_cache(const schemas::Scheme& scheme,
                                              const CacheShape& shape);

}  // namespace dgap::engine
