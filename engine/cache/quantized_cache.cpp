#include "engine/cache/quantized_cache.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/kvquant_calibration.hpp"

namespace dgap::engine {
namespace {

using schemas::Quantizer;
using schemas::Scheme;
using schemas::TensorScheme;

constexpr std::int64_t kParallelValues = 1 << 13;  // below, a task costs more than it saves

bool is_exact(const TensorScheme& tensor) { return tensor.quantizer == Quantizer::exact; }

/// Whether codes are of a value itself, without an offset of their own.
bool is_symmetric(const TensorScheme& tensor) {
  return tensor.axis == schemas::GroupAxis::token && !has_minima(tensor.quantizer) &&
         tensor.quantizer != Quantizer::kvarn && !schemas::spans_heads(tensor);
}

/// Keys are read rotated where rotating the queries too is all that it takes.
bool reads_keys_rotated(const TensorScheme& key) {
  return key.rotate && !key.center && !key.normalize;
}

/// Whether rounding a read key to bf16, to 2^-9 of it, would show beside the error of its code,
/// which is a share of the deviation that was coded: of a large value where codes have an offset
/// (KIVI's channels), of a large mean where they are centred (the biased keys of Qwen2).
bool is_fine(const HeadTensor& tensor) {
  const TensorScheme& key = tensor.plan().scheme;
  if (key.bits > (key.center ? 2 : 4) || !is_symmetric(key)) return true;
  if (key.center && !key.normalize) return true;  // the deviation is not known
  // In deviations: 16 * 2^-9 is a tenth of a 2-bit code's error.
  constexpr float kLargeMean = 16.0f;
  const Centring& centring = tensor.centring();
  for (std::size_t i = 0; i < centring.mean().size(); ++i)
    if (std::abs(centring.mean()[i]) > kLargeMean * centring.rms()[i]) return true;
  return false;
}

const Scheme& checked(const Scheme& scheme, const ExactCache& prefix, std::int64_t length) {
  const CacheShape& shape = prefix.shape();
  schemas::validate(scheme, {shape.head_dim, shape.layers, shape.kv_heads});
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
      prefix_length_(length),
      rope_(prefix.rope()) {
  if (schemas::needs_calibration(scheme_))
    calibration_ = load_calibration(scheme_, {shape().head_dim, shape().layers, shape().kv_heads});
  for (int layer = 0; layer < shape().layers; ++layer) layers_.push_back(make_layer(layer));
  const int count = shape().layers * shape().kv_heads;
  heads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    heads_.push_back(make_head(i / shape().kv_heads, i % shape().kv_heads));
  tbb::parallel_for(0, count, [&](int i) {
    Head& head = heads_[static_cast<std::size_t>(i)];
    head.key.begin();
    head.value.begin();
    head.fine_keys = is_fine(head.key);
  });
  tbb::parallel_for(0, shape().layers, [&](int layer) {
    calibrate(layer, &Head::key);
    calibrate(layer, &Head::value);
    advance_layer(layer);
  });
  tbb::parallel_for(0, count, [&](int i) {
    heads_[static_cast<std::size_t>(i)].key.begin_codes();
    heads_[static_cast<std::size_t>(i)].value.begin_codes();
  });
}

QuantizedCache::QuantizedCache(const Scheme& scheme, std::unique_ptr<const ExactCache> prefix)
    : QuantizedCache(scheme, *prefix, 0) {
  own_prefix_ = std::move(prefix);
}

QuantizedCache::QuantizedCache(const Scheme& scheme, const CacheShape& shape)
    : QuantizedCache(scheme, make_exact_cache(shape, ExactCacheType::f16, 0, true)) {}

QuantizedCache::Head QuantizedCache::make_head(int layer, int head) {
  const auto [key, value] = schemas::head_scheme(scheme_, shape().layers, layer, head);
  const bool exact = is_exact(key) && is_exact(value);
  const bool before_rope = scheme_.key_before_rope && !is_exact(key);
  const HeadTensor::Plan& keys = plan(key);
  const HeadTensor::Plan& values = plan(value);
  return {
      HeadTensor(
          keys,
          {&prefix_, before_rope ? PrefixRows::Tensor::keys_before_rope : PrefixRows::Tensor::keys,
           layer, head},
          layer_keys(layer)),
      HeadTensor(values, {&prefix_, PrefixRows::Tensor::values, layer, head}, layer_values(layer)),
      find_view(exact ? View() : View{scheme_.sink_tokens, keys.window, values.window}),
      before_rope, !before_rope && reads_keys_rotated(key)};
}

QuantizedCache::Layer QuantizedCache::make_layer(int layer) const {
  const auto [key, value] = schemas::head_scheme(scheme_, shape().layers, layer, 0);
  const schemas::LayerCalibration* calibration =
      calibration_ ? &calibration_->layers[static_cast<std::size_t>(layer)] : nullptr;
  const auto make = [&](const TensorScheme& tensor, const schemas::TensorCalibration* own) {
    return make_layer_codes(tensor, shape().kv_heads, shape().head_dim, own);
  };
  return {make(key, calibration ? &calibration->key : nullptr),
          make(value, calibration ? &calibration->value : nullptr)};
}

void QuantizedCache::calibrate(int layer, HeadTensor Head::*tensor) {
  const std::int64_t heads = shape().kv_heads;
  Head* const first = &heads_[static_cast<std::size_t>(layer * heads)];
  const bool together = (first->*tensor).plan().scheme.layer_scale;
  const std::int64_t sinks = scheme_.sink_tokens;
  const std::int64_t tokens = std::max(prefix_length_ - sinks, std::int64_t{0});
  const auto read = [&](std::int64_t from, std::int64_t to, float* out) {
    for (std::int64_t row = from; row < to; ++row, out += shape().head_dim) {
      const std::int64_t token = sinks + row / heads;
      (first[row % heads].*tensor).read_transformed(token, token + 1, out);
    }
  };
  for (std::int64_t h = 0; h < heads; ++h)
    together ? (first[h].*tensor).calibrate(0, tokens * heads, read)
             : (first[h].*tensor).calibrate();
}

void QuantizedCache::advance_layer(int layer) {
  const Layer& codes = layer_at(layer);
  advance_codes(codes.keys.get(), layer, &Head::key);
  advance_codes(codes.values.get(), layer, &Head::value);
}

void QuantizedCache::advance_codes(LayerCodes* codes, int layer, HeadTensor Head::*tensor) {
  if (codes == nullptr) return;
  const std::int64_t sinks = scheme_.sink_tokens;
  const std::int64_t end = (at(layer, 0).*tensor).due_end() - sinks;
  if (end <= codes->size()) return;
  codes->append(end, [&](int head, std::int64_t from, std::int64_t to, float* out) {
    (at(layer, head).*tensor).read_source(sinks + from, sinks + to, out);
  });
}

const HeadTensor::Plan& QuantizedCache::plan(const TensorScheme& tensor) {
  const auto same = std::find_if(plans_.begin(), plans_.end(),
                                 [&](const auto& plan) { return plan.scheme == tensor; });
  if (same != plans_.end()) return *same;
  return plans_.emplace_back(HeadTensor::Plan{
      tensor, Window(tensor, scheme_.residual_window, scheme_.sink_tokens, prefix_length_),
      shape().head_dim, scheme_.sink_tokens, prefix_length_,
      make_rotation(tensor, shape().head_dim, scheme_.rotation_seed),
      make_codec(tensor, shape().head_dim, scheme_.rotation_seed)});
}

int QuantizedCache::find_view(const View& view) {
  const auto same = std::find(views_.begin(), views_.end(), view);
  const auto index = static_cast<int>(same - views_.begin());
  if (same == views_.end()) views_.push_back(view);
  return index;
}

const QuantizedCache::Head& QuantizedCache::at(int layer, int head) const {
  assert(layer >= 0 && layer < shape().layers && head >= 0 && head < shape().kv_heads);
  return heads_[static_cast<std::size_t>(layer * shape().kv_heads + head)];
}

ExactTokens QuantizedCache::exact_tokens(int view, std::int64_t position) const {
  const View& rule = views_[static_cast<std::size_t>(view)];
  return {rule.sinks, rule.keys.exact_begin(position), rule.values.exact_begin(position)};
}

std::int64_t QuantizedCache::block_limit() const {
  for (const HeadTensor::Plan& plan : plans_)  // all of those leave at the same times
    if (plan.scheme.window == schemas::WindowRule::requantize)
      return plan.window.until_leave(length());
  return KvCache::block_limit();
}

void QuantizedCache::append_head(Head& head, std::int64_t tokens, const float* keys,
                                 const float* values) {
  const std::int64_t stride = std::int64_t{shape().kv_heads} * shape().head_dim;
  head.key.append(tokens, keys, stride, head.key_before_rope ? nullptr : &rope_);
  head.value.append(tokens, values, stride, nullptr);
}

void QuantizedCache::append(int layer, std::int64_t tokens, const float* keys,
                            const float* values) {
  if (tokens == 0) return;
  assert(tokens <= block_limit() || layer > 0);
  const std::int64_t first = at(layer, 0).key.length();
  for (LayerCodes* codes : {layer_at(layer).keys.get(), layer_at(layer).values.get()})
    if (codes != nullptr) codes->begin_block();
  rope_.reserve(first + tokens);
  const bool spans_heads = layer_keys(layer) != nullptr || layer_values(layer) != nullptr;
  const auto for_heads = [&](const auto& task) {
    if (tokens * shape().kv_heads * shape().head_dim >= kParallelValues)
      tbb::parallel_for(0, shape().kv_heads, task);
    else
      for (int head = 0; head < shape().kv_heads; ++head) task(head);
  };
  const auto own = [&](int head) -> Head& {
    return heads_[static_cast<std::size_t>(layer * shape().kv_heads + head)];
  };
  const auto advance_head = [&](int head) {
    own(head).key.advance(first);
    own(head).value.advance(first);
  };
  for_heads([&](int head) {
    const std::int64_t offset = std::int64_t{head} * shape().head_dim;
    append_head(own(head), tokens, keys + offset, values + offset);
    if (!spans_heads) advance_head(head);
  });
  if (!spans_heads) return;
  advance_layer(layer);
  for_heads(advance_head);
}

void QuantizedCache::read_keys(int layer, int head, Copy copy, std::int64_t begin, std::int64_t end,
                               float* out) const {
  const Head& from = at(layer, head);
  const RopeTable* rope = from.key_before_rope ? &rope_ : nullptr;
  if (copy == Copy::exact || from.key.plan().exact()) {
    from.key.read_exact(begin, end, out);
    if (rope != nullptr) rope->apply(begin, end - begin, 1, out);
  } else {
    from.key.read_stored(begin, end, out);
    if (!from.rotates_queries) from.key.restore(begin, end - begin, rope, out);
  }
}

void QuantizedCache::read_values(int layer, int head, Copy copy, std::int64_t begin,
                                 std::int64_t end, float* out) const {
  const HeadTensor& value = at(layer, head).value;
  if (copy == Copy::exact || value.plan().exact())
    value.read_exact(begin, end, out);
  else
    value.read_stored(begin, end, out);
}

void QuantizedCache::rotate_queries(int layer, int head, std::int64_t rows, float* queries) const {
  if (at(layer, head).rotates_queries) at(layer, head).key.rotate(rows, queries);
}

void QuantizedCache::finish_values(int layer, int head, std::int64_t rows, const float* mass,
                                   float* sums) const {
  at(layer, head).value.restore_sums(rows, mass, sums);
}

CacheBytes QuantizedCache::bytes() const {
  CacheBytes bytes;
  const auto add = [&](const HeadTensor& tensor, std::int64_t& elements, std::int64_t& code_bytes,
                       std::int64_t& total_elements, std::int64_t& total_bytes) {
    const std::int64_t quantised = tensor.quantised();
    // An exact tensor weighs in the average of a mixed cache with what has left the window.
    const std::int64_t exact =
        tensor.plan().exact()
            ? std::max<std::int64_t>(
                  tensor.length() - scheme_.sink_tokens - std::max(scheme_.residual_window, 1), 0)
            : 0;
    elements += (quantised + exact) * shape().head_dim;
    code_bytes += tensor.code_bytes() + 2 * exact * shape().head_dim;
    total_elements += tensor.length() * shape().head_dim;
    total_bytes += tensor.code_bytes() + tensor.constant_bytes() +
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
  return {scheme_.sink_tokens,     codes.size(),       codes.codes(),
          codes.scales(),          codes.minima(),     tensor.centring().mean(),
          tensor.centring().rms(), codes.parameters(), tensor.outliers().order()};
}

std::unique_ptr<KvCache> make_quantized_cache(const Scheme& scheme, const ExactCache& prefix,
                                              std::int64_t length) {
  return std::make_unique<QuantizedCache>(scheme, prefix, length);
}

std::unique_ptr<KvCache> make_quantized_cache(const Scheme& scheme, const CacheShape& shape) {
  return std::make_unique<QuantizedCache>(scheme, shape);
}

}  // namespace dgap::engine
