#include "engine/cache/exact_cache.hpp"

#include <cassert>
#include <string>

#include <tbb/parallel_for.h>

#include "base/error.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kParallelValues = 1 << 15;  // below, a task costs more than it saves

CacheShape checked(const CacheShape& shape) {
  if (shape.layers <= 0 || shape.kv_heads <= 0 || shape.head_dim <= 0 ||
      shape.head_dim > kMaxHeadDim)
    throw base::FailedError(
        "a cache of " + std::to_string(shape.layers) + " layers, " +
        std::to_string(shape.kv_heads) + " key/value heads of " + std::to_string(shape.head_dim) +
        " channels is not supported: each must be positive, and head_dim at most " +
        std::to_string(kMaxHeadDim));
  return shape;
}

}  // namespace

ExactCache::ExactCache(const CacheShape& shape, ExactCacheType type, std::int64_t capacity,
                       bool keep_pre_rope)
    : shape_(checked(shape)),
      type_(type),
      keep_pre_rope_(keep_pre_rope),
      rope_(shape.head_dim, shape.rope, capacity),
      heads_(static_cast<std::size_t>(shape.layers * shape.kv_heads),
             Head{Rows(shape.head_dim, type), Rows(shape.head_dim, type),
                  Rows(shape.head_dim, type)}) {
  for (Head& head : heads_) {
    head.keys.reserve(capacity);
    head.values.reserve(capacity);
    if (keep_pre_rope_) head.pre_rope_keys.reserve(capacity);
  }
}

const ExactCache::Head& ExactCache::at(int layer, int head) const {
  assert(layer >= 0 && layer < shape_.layers && head >= 0 && head < shape_.kv_heads);
  return heads_[static_cast<std::size_t>(layer * shape_.kv_heads + head)];
}

std::int64_t ExactCache::length() const { return heads_.back().keys.end(); }

void ExactCache::append_head(Head& head, std::int64_t tokens, const float* keys,
                             const float* values) const {
  const std::int64_t stride = std::int64_t{shape_.kv_heads} * shape_.head_dim;
  head.keys.append_rotated(rope_, tokens, keys, stride);
  if (keep_pre_rope_) head.pre_rope_keys.append(tokens, keys, stride);
  head.values.append(tokens, values, stride);
}

void ExactCache::append(int layer, std::int64_t tokens, const float* keys, const float* values) {
  rope_.reserve(at(layer, 0).keys.end() + tokens);
  const auto append_one = [&](int head) {
    const std::int64_t offset = std::int64_t{head} * shape_.head_dim;
    append_head(heads_[static_cast<std::size_t>(layer * shape_.kv_heads + head)], tokens,
                keys + offset, values + offset);
  };
  if (tokens * shape_.kv_heads * shape_.head_dim >= kParallelValues)
    tbb::parallel_for(0, shape_.kv_heads, append_one);
  else
    for (int head = 0; head < shape_.kv_heads; ++head) append_one(head);
}

void ExactCache::read_keys(int layer, int head, [[maybe_unused]] Copy copy, std::int64_t begin,
                           std::int64_t end, float* out) const {
  assert(copy == Copy::exact);
  at(layer, head).keys.read(begin, end, out);
}

void ExactCache::read_values(int layer, int head, [[maybe_unused]] Copy copy, std::int64_t begin,
                             std::int64_t end, float* out) const {
  assert(copy == Copy::exact);
  at(layer, head).values.read(begin, end, out);
}

void ExactCache::read_pre_rope_keys(int layer, int head, std::int64_t begin, std::int64_t end,
                                    float* out) const {
  assert(keep_pre_rope_);
  at(layer, head).pre_rope_keys.read(begin, end, out);
}

CacheBytes ExactCache::bytes() const {
  CacheBytes bytes;
  for (const Head& head : heads_) {
    bytes.total_elements_key += (head.keys.end() - head.keys.begin()) * shape_.head_dim;
    bytes.total_elements_value += (head.values.end() - head.values.begin()) * shape_.head_dim;
    bytes.total_bytes_key += head.keys.bytes();  // keys before RoPE only serve forks
    bytes.total_bytes_value += head.values.bytes();
  }
  return bytes;
}

std::unique_ptr<ExactCache> make_exact_cache(const CacheShape& shape, ExactCacheType type,
                                             std::int64_t capacity, bool keep_pre_rope) {
  return std::make_unique<ExactCache>(shape, type, capacity, keep_pre_rope);
}

}  // namespace dgap::engine
