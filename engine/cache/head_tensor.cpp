#include "engine/cache/head_tensor.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/half.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kChunkRows = 16;

/// Values that one thread works on at a time; grows to the largest chunk and stays.
float* scratch(std::size_t values) {
  thread_local std::vector<float> buffer;
  if (buffer.size() < values) buffer.resize(values);
  return buffer.data();
}

}  // namespace

void PrefixRows::read(std::int64_t from, std::int64_t to, float* out) const {
  switch (tensor) {
    case Tensor::keys:
      cache->read_keys(layer, head, Copy::exact, from, to, out);
      break;
    case Tensor::keys_before_rope:
      cache->read_pre_rope_keys(layer, head, from, to, out);
      break;
    case Tensor::values:
      cache->read_values(layer, head, Copy::exact, from, to, out);
      break;
  }
  if (cache->type() == ExactCacheType::f16) return;
  const std::int64_t values = (to - from) * cache->shape().head_dim;
  for (std::int64_t i = 0; i < values; ++i) out[i] = base::round_to_half(out[i]);
}

HeadTensor::HeadTensor(const Plan& plan, const PrefixRows& prefix, const LayerCodes* layer)
    : plan_(&plan),
      prefix_(prefix),
      sinks_(plan.head_dim, ExactCacheType::f16),
      recent_(plan.head_dim, ExactCacheType::f16),
      codes_(plan.codec.get()),
      layer_(layer) {
  recent_.start_at(plan.prefix_length);
}

void HeadTensor::begin() {
  if (plan_->exact()) return;
  std::array<float, kMaxHeadDim> row;
  for (std::int64_t t = 0; t < std::min(plan_->sinks, plan_->prefix_length); ++t) {
    prefix_.read(t, t + 1, row.data());
    sinks_.append(1, row.data(), plan_->head_dim);
  }
  if (layer_ != nullptr) return;
  const std::int64_t from = plan_->sinks, to = std::max(plan_->prefix_length, plan_->sinks);
  centring_ = Centring(plan_->scheme, plan_->head_dim, from, to,
                       [this](std::int64_t a, std::int64_t b, float* x) { prefix_.read(a, b, x); });
  outliers_ = Outliers(plan_->scheme, plan_->head_dim, from, to,
                       [this](std::int64_t a, std::int64_t b, float* x) {
                         prefix_.read(a, b, x);
                         centring_.apply(b - a, x);
                       });
}

void HeadTensor::read_transformed(std::int64_t from, std::int64_t to, float* out) const {
  prefix_.read(from, to, out);
  centring_.apply(to - from, out);
  rotate(to - from, out);
}

void HeadTensor::calibrate(std::int64_t begin, std::int64_t end, const RowReader& read) {
  codes_.calibrate(begin, end, read);
}

void HeadTensor::calibrate() {
  if (plan_->exact() || layer_ != nullptr) return;
  codes_.calibrate(plan_->sinks, std::max(plan_->prefix_length, plan_->sinks),
                   [this](std::int64_t a, std::int64_t b, float* x) { read_transformed(a, b, x); });
}

void HeadTensor::begin_codes() {
  if (plan_->exact() || layer_ != nullptr) return;
  const std::int64_t end = plan_->window.quantised_end(plan_->prefix_length);
  codes_.reserve(end - plan_->sinks);
  quantise(end);
}

void HeadTensor::append(std::int64_t rows, const float* x, std::int64_t stride,
                        const RopeTable* rope) {
  const std::int64_t first = recent_.end();
  rope == nullptr ? recent_.append(rows, x, stride)
                  : recent_.append_rotated(*rope, rows, x, stride);
  if (plan_->exact()) return;
  std::array<float, kMaxHeadDim> row;
  for (std::int64_t t = first; t < std::min(plan_->sinks, first + rows); ++t) {
    recent_.read(t, t + 1, row.data());
    sinks_.append(1, row.data(), plan_->head_dim);
  }
}

void HeadTensor::advance(std::int64_t first) {
  if (plan_->exact()) return;
  if (layer_ == nullptr) quantise(due_end());
  recent_.drop_before(plan_->window.exact_begin(first));
}

void HeadTensor::quantise(std::int64_t end) {
  const std::int64_t step = codes_.step();
  const std::int64_t chunk = std::max(step, kChunkRows / step * step);
  float* x = scratch(static_cast<std::size_t>(chunk * plan_->head_dim));
  for (std::int64_t t = quantised_end(); t < end; t = quantised_end()) {
    const std::int64_t rows = std::min(chunk, end - t);
    read_source(t, t + rows, x);
    centring_.apply(rows, x);
    rotate(rows, x);
    codes_.append(rows, x);
  }
}

void HeadTensor::read_source(std::int64_t from, std::int64_t to, float* out) const {
  const std::int64_t middle = std::clamp(plan_->prefix_length, from, to);
  if (from < middle) prefix_.read(from, middle, out);
  if (middle < to) recent_.read(middle, to, out + (middle - from) * plan_->head_dim);
}

void HeadTensor::read_exact(std::int64_t from, std::int64_t to, float* out) const {
  const std::int64_t middle = std::clamp(sinks_.end(), from, to);
  if (from < middle) sinks_.read(from, middle, out);
  read_source(middle, to, out + (middle - from) * plan_->head_dim);
}

void HeadTensor::read_stored(std::int64_t from, std::int64_t to, float* out) const {
  from -= plan_->sinks, to -= plan_->sinks;
  layer_ != nullptr ? layer_->read(prefix_.head, from, to, out) : codes_.read(from, to, out);
}

std::int64_t HeadTensor::code_bytes() const {
  if (layer_ == nullptr) return codes_.bytes();
  return prefix_.head == 0 ? layer_->bytes() : 0;
}

std::int64_t HeadTensor::constant_bytes() const {
  const bool counted_elsewhere = plan_->scheme.layer_scale && prefix_.head != 0;
  const std::int64_t own =
      centring_.bytes() + outliers_.bytes() + (counted_elsewhere ? 0 : codes_.parameter_bytes());
  return own + (layer_ != nullptr && prefix_.head == 0 ? layer_->constant_bytes() : 0);
}

void HeadTensor::rotate(std::int64_t rows, float* x) const {
  outliers_.first(rows, x);
  if (plan_->rotation != nullptr) plan_->rotation->apply(rows, x);
}

void HeadTensor::unrotate(std::int64_t rows, float* x) const {
  if (plan_->rotation != nullptr) plan_->rotation->undo(rows, x);
  outliers_.back(rows, x);
}

void HeadTensor::restore(std::int64_t first, std::int64_t rows, const RopeTable* rope,
                         float* x) const {
  unrotate(rows, x);
  if (rope == nullptr)
    centring_.undo(rows, x);
  else if (centring_.empty())
    rope->apply(first, rows, 1, x);
  else
    rope->apply(first, rows, centring_.rms().data(), centring_.mean().data(), x);
}

void HeadTensor::restore_sums(std::int64_t rows, const float* mass, float* x) const {
  unrotate(rows, x);
  centring_.undo_sum(rows, mass, x);
}

}  // namespace dgap::engine
