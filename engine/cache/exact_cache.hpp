#pragma once
#include <cstdint>
#include <vector>

#include "engine/cache/kv_cache.hpp"
#include "engine/cache/rope.hpp"
#include "engine/cache/rows.hpp"

namespace dgap::engine {

/// The exact cache of a prefix and of the reference decode. Per layer and head [tokens, head_dim],
/// contiguous: keys after RoPE (applied in f32, then rounded to the storage type), values, and,
/// with keep_pre_rope, keys before RoPE, which forks of schemes with key_before_rope start from.
class ExactCache final : public KvCache {
 public:
  /// Room for `capacity` tokens is reserved; more can be appended. FailedError on an impossible
  /// shape.
  ExactCache(const CacheShape& shape, ExactCacheType type, std::int64_t capacity,
             bool keep_pre_rope);

  const CacheShape& shape() const override { return shape_; }
  std::int64_t length() const override;
  int views() const override { return 1; }
  int view(int, int) const override { return 0; }
  ExactTokens exact_tokens(int, std::int64_t) const override { return {}; }

  void append(int layer, std::int64_t tokens, const float* keys, const float* values) override;
  /// `copy` must be Copy::exact: a row of this cache sees nothing else.
  void read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                 float* out) const override;
  void read_values(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                   float* out) const override;

  bool fine_keys(int, int) const override { return true; }
  bool rotates_queries(int, int) const override { return false; }
  void rotate_queries(int, int, std::int64_t, float*) const override {}
  void finish_values(int, int, std::int64_t, const float*, float*) const override {}
  CacheBytes bytes() const override;

  ExactCacheType type() const { return type_; }
  bool keeps_pre_rope() const { return keep_pre_rope_; }
  /// Keys before RoPE; only where keeps_pre_rope().
  void read_pre_rope_keys(int layer, int head, std::int64_t begin, std::int64_t end,
                          float* out) const;
  /// Covers every position that has been appended, and the capacity.
  const RopeTable& rope() const { return rope_; }

 private:
  struct Head {
    Rows keys, values, pre_rope_keys;
  };
  const Head& at(int layer, int head) const;
  void append_head(Head& head, std::int64_t tokens, const float* keys, const float* values) const;

  CacheShape shape_;
  ExactCacheType type_;
  bool keep_pre_rope_;
  RopeTable rope_;
  std::vector<Head> heads_;  // [layers, kv_heads]
};

}  // namespace dgap::engine
