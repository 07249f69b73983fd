#pragma once
#include <cstdint>
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
/// **Rows and copies.** A row at position i sees token j <= i exactly when j < sinks() or
/// j >= exact_begin(i), else quantised. exact_begin is non-decreasing in i and is the whole of a
/// scheme's window rule: max(R, 1) newest tokens for token-grouped schemes, whole groups for
/// channel-grouped ones. An exact cache has exact_begin = 0.
namespace dgap::engine {

struct CacheShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  RopeParameters rope = {};
};

/// Cosines and sines of RoPE for positions [0, capacity), computed in f64, stored f32.
class RopeTable;

enum class Copy { exact, quantized };

class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual const CacheShape& shape() const = 0;
  virtual std::int64_t length() const = 0;  // tokens whose last layer has been appended
  virtual std::int64_t sinks() const = 0;
  virtual std::int64_t exact_begin(std::int64_t position) const = 0;

  /// Appends `tokens` tokens to one layer: keys before RoPE, values. Layers are appended in order,
  /// the same number of tokens each. Parallel over heads where that pays. After append, for every
  /// row of this block both copies that it may need are readable, until the next append to this
  /// layer.
  virtual void append(int layer, std::int64_t tokens, const float* keys, const float* values) = 0;

  /// Keys of [begin, end) after RoPE: the model's keys, but for quantised ones where
  /// rotates_queries(). Copy::exact serves [0, min(sinks(), end)) and tokens from exact_begin(first
  /// row of the last block) on; Copy::quantized [sinks(), exact_begin(last row)).
  virtual void read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                         float* out) const = 0;
  /// Values of [begin, end) in the copy's *value space* (see finish_values).
  virtual void read_values(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                           float* out) const = 0;

  /// True when quantised keys are read in a rotated space: then the dot products with them need
  /// rotate_queries applied to a copy of the queries [rows, head_dim], in place.
  virtual bool rotates_queries() const = 0;
  virtual void rotate_queries(int layer, int head, std::int64_t rows, float* queries) const = 0;
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

}  // namespace dgap::engine
