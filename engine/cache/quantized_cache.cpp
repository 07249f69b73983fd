#include "engine/cache/quantized_cache.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cassert>
#include <string>

#include "base/error.hpp"

namespace dgap::engine {
namespace {

using schemas::Scheme;
using schemas::TensorScheme;

constexpr std::int64_t kParallelValues = 1 << 13;  // below, a task costs more than it saves

bool is_exact(const TensorScheme& tensor) { return tensor.bits == 16; }
bool is_exact(const Scheme& scheme) { return is_exact(scheme.key) && is_exact(scheme.value); }

/// Keys are read rotated where un-rotating the queries instead is all that it takes.
bool reads_keys_rotated(const Scheme& scheme) {
  return scheme.key.rotate && !scheme.key.center && !scheme.key.normalize &&
         !scheme.key_before_rope;
}

const Scheme& checked(const Scheme& scheme, const ExactCache& prefix, std::int64_t length) {
  schemas::validate(scheme, prefix.shape().head_dim);
  if (length < 0 || length > prefix.length())
    throw base::FailedError("scheme '" + scheme.name + "': a prefix of " + std::to_string(length) +
                            " tokens was asked for, but the exact cache holds " +
                            std::to_string(prefix.length()));
  if (scheme.key_before_rope && !prefix.keeps_pre_rope())
    throw base::FailedError("scheme '" + scheme.name +
                            "' quantises keys before RoPE, which the exact cache was not told to "
                            "keep (keep_pre_rope)");
  return scheme;
}

}  // namespace

QuantizedCache::QuantizedCache(const Scheme& scheme, const ExactCache& prefix, std::int64_t length)
    : scheme_(checked(scheme, prefix, length)),
      prefix_(prefix),
      sinks_(is_exact(scheme) ? 0 : scheme.sink_tokens),
      rotates_queries_(reads_keys_rotated(scheme)),
      rope_(prefix.rope()) {
  key_plan_ = plan(scheme_.key, length);
  value_plan_ = plan(scheme_.value, length);
  const auto keys =
      scheme.key_before_rope ? PrefixRows::Tensor::keys_before_rope : PrefixRows::Tensor::keys;
  const int count = prefix.shape().layers * prefix.shape().kv_heads;
  heads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int layer = i / prefix.shape().kv_heads, head = i % prefix.shape().kv_heads;
    heads_.push_back({HeadTensor(key_plan_, {&prefix, keys, layer, head}),
                      HeadTensor(value_plan_, {&prefix, PrefixRows::Tensor::values, layer, head})});
  }
  tbb::parallel_for(0, count, [&](int i) {
    heads_[static_cast<std::size_t>(i)].key.begin();
    heads_[static_cast<std::size_t>(i)].value.begin();
  });
}

HeadTensor::Plan QuantizedCache::plan(const TensorScheme& tensor, std::int64_t length) const {
  return {tensor,
          Window(tensor, scheme_.residual_window, sinks_),
          shape().head_dim,
          sinks_,
          length,
          make_rotation(tensor, shape().head_dim, scheme_.rotation_seed),
          make_codec(tensor, shape().head_dim, scheme_.rotation_seed)};
}

const QuantizedCache::Head& QuantizedCache::at(int layer, int head) const {
  assert(layer >= 0 && layer < shape().layers && head >= 0 && head < shape().kv_heads);
  return heads_[static_cast<std::size_t>(layer * shape().kv_heads + head)];
}

ExactTokens QuantizedCache::exact_tokens(int, std::int64_t position) const {
  return {sinks_, key_plan_.window.exact_begin(position), value_plan_.window.exact_begin(position)};
}

void QuantizedCache::append_head(Head& head, std::int64_t tokens, const float* keys,
                                 const float* values) {
  const std::int64_t stride = std::int64_t{shape().kv_heads} * shape().head_dim;
  const std::int64_t first = head.key.length();
  head.key.append(tokens, keys, stride, scheme_.key_before_rope ? nullptr : &rope_);
  head.value.append(tokens, values, stride, nullptr);
  head.key.advance(first);
  head.value.advance(first);
}

void QuantizedCache::append(int layer, std::int64_t tokens, const float* keys,
                            const float* values) {
  if (tokens == 0) return;
  rope_.reserve(at(layer, 0).key.length() + tokens);
  const auto append_one = [&](int head) {
    const std::int64_t offset = std::int64_t{head} * shape().head_dim;
    append_head(heads_[static_cast<std::size_t>(layer * shape().kv_heads + head)], tokens,
                keys + offset, values + offset);
  };
  if (tokens * shape().kv_heads * shape().head_dim >= kParallelValues)
    tbb::parallel_for(0, shape().kv_heads, append_one);
  else
    for (int head = 0; head < shape().kv_heads; ++head) append_one(head);
}

void QuantizedCache::read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                               float* out) const {
  const HeadTensor& key = at(layer, head).key;
  const RopeTable* rope = scheme_.key_before_rope ? &rope_ : nullptr;
  if (copy == Copy::exact || key_plan_.exact()) {
    key.read_exact(begin, end, out);
    if (rope != nullptr) rope->apply(begin, end - begin, 1, out);
  } else {
    key.read_stored(begin, end, out);
    if (!rotates_queries_) key.restore(begin, end - begin, rope, out);
  }
}

void QuantizedCache::read_values(int layer, int head, Copy copy, std::int64_t begin,
                                 std::int64_t end, float* out) const {
  const HeadTensor& value = at(layer, head).value;
  if (copy == Copy::exact || value_plan_.exact())
    value.read_exact(begin, end, out);
  else
    value.read_stored(begin, end, out);
}

void QuantizedCache::rotate_queries(int layer, int head, std::int64_t rows, float* queries) const {
  if (rotates_queries_) at(layer, head).key.rotate(rows, queries);
}

void QuantizedCache::finish_values(int layer, int head, std::int64_t rows, const float* mass,
                                   float* sums) const {
  at(layer, head).value.restore_sums(rows, mass, sums);
}

CacheBytes QuantizedCache::bytes() const {
  CacheBytes bytes;
  const auto add = [&](const HeadTensor& tensor, std::int64_t& elements, std::int64_t& code_bytes,
                       std::int64_t& total_elements, std::int64_t& total_bytes) {
    const std::int64_t quantised = tensor.codes().size();
    elements += quantised * shape().head_dim;
    code_bytes += tensor.codes().bytes();
    total_elements += tensor.length() * shape().head_dim;
    total_bytes += tensor.codes().bytes() + tensor.constant_bytes() +
                   2 * (tensor.length() - quantised) * shape().head_dim;
  };
  for (const Head& head : heads_) {
    add(head.key, bytes.elements_key, bytes.code_bytes_key, bytes.total_elements_key,
        bytes.total_bytes_key);
    add(head.value, bytes.elements_value, bytes.code_bytes_value, bytes.total_elements_value,
        bytes.total_bytes_value);
  }
  return bytes;
}

QuantizedCache::Raw QuantizedCache::raw(const HeadTensor& tensor) const {
  const QuantizedRows& codes = tensor.codes();
  return {sinks_,
          codes.size(),
          codes.codes(),
          codes.scales(),
          codes.minima(),
          tensor.centring().mean(),
          tensor.centring().rms(),
          codes.parameters(),
          tensor.outliers().order()};
}

std::unique_ptr<KvCache> make_quantized_cache(const Scheme& scheme, const ExactCache& prefix,
                                              std::int64_t length) {
  return std::make_unique<QuantizedCache>(scheme, prefix, length);
}

}  // namespace dgap::engine
