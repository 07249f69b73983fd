#include "engine/cache/rope.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "base/multiversion.hpp"
#include "engine/cache/lanes.hpp"
#include "engine/cache/rope_frequencies.hpp"

namespace dgap::engine {
namespace {

/// What happens to a value before it is rotated.
struct Unchanged {
  template <class Float>
  DGAP_INLINE void operator()(Float&) const {}
};
template <class Float>
struct Scaled {
  Float scale, shift;
  DGAP_INLINE void operator()(Float& x) const { x = x * scale + shift; }
};

DGAP_INLINE void load_lanes(const float* from, Floats16& out) { load(from, out); }
DGAP_INLINE void load_lanes(const float* from, float& out) { out = *from; }
DGAP_INLINE void store_lanes(const Floats16& x, float* to) { store(x, to); }
DGAP_INLINE void store_lanes(const float& x, float* to) { *to = x; }

/// One channel or sixteen of each half of a row; x and out may be the same.
template <class Float, class First, class Second>
DGAP_INLINE void rotate_lanes(const First& first, const Second& second, const float* x,
                              const float* cosines, const float* sines, std::int64_t half,
                              float* out) {
  Float a, b, c, s;
  load_lanes(x, a);
  load_lanes(x + half, b);
  load_lanes(cosines, c);
  load_lanes(sines, s);
  first(a);
  second(b);
  store_lanes(a * c - b * s, out);
  store_lanes(b * c + a * s, out + half);
}

/// One vector of 2 * half channels; x and out may be the same.
DGAP_INLINE void rotate(const float* x, const float* cosines, const float* sines, std::int64_t half,
                        float* out) {
  constexpr Unchanged kUnchanged;
  std::int64_t i = 0;
  for (; i + 16 <= half; i += 16)
    rotate_lanes<Floats16>(kUnchanged, kUnchanged, x + i, cosines + i, sines + i, half, out + i);
  for (; i < half; ++i)
    rotate_lanes<float>(kUnchanged, kUnchanged, x + i, cosines + i, sines + i, half, out + i);
}

/// The same channels of all rows, whose scales and shifts stay in registers.
template <class Float>
DGAP_INLINE void rotate_scaled_lanes(std::int64_t rows, std::int64_t half, const float* scale,
                                     const float* shift, const float* cosines, const float* sines,
                                     float* x) {
  Scaled<Float> first, second;
  load_lanes(scale, first.scale);
  load_lanes(shift, first.shift);
  load_lanes(scale + half, second.scale);
  load_lanes(shift + half, second.shift);
  for (std::int64_t r = 0; r < rows; ++r, cosines += half, sines += half, x += 2 * half)
    rotate_lanes<Float>(first, second, x, cosines, sines, half, x);
}

DGAP_MULTIVERSION void rotate_in_place(std::int64_t tokens, std::int64_t heads, std::int64_t half,
                                       const float* cosines, const float* sines, float* x) {
  for (std::int64_t t = 0; t < tokens; ++t, cosines += half, sines += half)
    for (std::int64_t h = 0; h < heads; ++h, x += 2 * half) rotate(x, cosines, sines, half, x);
}

DGAP_MULTIVERSION void rotate_scaled(std::int64_t rows, std::int64_t half, const float* scale,
                                     const float* shift, const float* cosines, const float* sines,
                                     float* x) {
  std::int64_t i = 0;
  for (; i + 16 <= half; i += 16)
    rotate_scaled_lanes<Floats16>(rows, half, scale + i, shift + i, cosines + i, sines + i, x + i);
  for (; i < half; ++i)
    rotate_scaled_lanes<float>(rows, half, scale + i, shift + i, cosines + i, sines + i, x + i);
}

DGAP_MULTIVERSION void rotate_rows(std::int64_t rows, std::int64_t half, const float* cosines,
                                   const float* sines, const float* x, std::int64_t stride,
                                   float* out) {
  for (std::int64_t r = 0; r < rows;
       ++r, cosines += half, sines += half, x += stride, out += 2 * half)
    rotate(x, cosines, sines, half, out);
}

}  // namespace

RopeTable::RopeTable(int head_dim, const RopeParameters& parameters, std::int64_t capacity)
    : head_dim_(head_dim), parameters_(parameters) {
  if (head_dim <= 0 || head_dim % 2 != 0)
    throw base::FailedError("head_dim " + std::to_string(head_dim) +
                            ": rotary embeddings pair channels, so it must be even and positive");
  if (!parameters.divisors.empty() && std::ssize(parameters.divisors) != head_dim / 2)
    throw base::FailedError("RoPE has " + std::to_string(parameters.divisors.size()) +
                            " frequency divisors for " + std::to_string(head_dim / 2) + " pairs");
  reserve(capacity);
}

void RopeTable::reserve(std::int64_t capacity) {
  if (capacity <= capacity_) return;
  if (capacity_ > 0) capacity = std::max(capacity, capacity_ + capacity_ / 2);
  const auto half = static_cast<std::size_t>(head_dim_ / 2);
  cosines_.resize(static_cast<std::size_t>(capacity) * half);
  sines_.resize(cosines_.size());
  const bool moving = parameters_.scaling == RopeParameters::Scaling::dynamic;
  const double scale = rope_attention_factor(parameters_);
  std::vector<double> frequencies = rope_frequencies(parameters_, head_dim_, capacity_ + 1);
  for (std::int64_t p = capacity_; p < capacity; ++p) {
    if (moving && p >= parameters_.original_context)
      frequencies = rope_frequencies(parameters_, head_dim_, p + 1);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      cosines_[index(p) + i] = static_cast<float>(scale * std::cos(angle));
      sines_[index(p) + i] = static_cast<float>(scale * std::sin(angle));
    }
  }
  capacity_ = capacity;
}

void RopeTable::apply(std::int64_t first, std::int64_t tokens, std::int64_t heads, float* x) const {
  assert(first >= 0 && first + tokens <= capacity_);
  if (tokens > 0) rotate_in_place(tokens, heads, head_dim_ / 2, cosines(first), sines(first), x);
}

void RopeTable::apply(std::int64_t first, std::int64_t rows, const float* scale, const float* shift,
                      float* x) const {
  assert(first >= 0 && first + rows <= capacity_);
  if (rows > 0) rotate_scaled(rows, head_dim_ / 2, scale, shift, cosines(first), sines(first), x);
}

void RopeTable::apply(std::int64_t first, std::int64_t rows, const float* x, std::int64_t stride,
                      float* out) const {
  assert(first >= 0 && first + rows <= capacity_);
  if (rows > 0) rotate_rows(rows, head_dim_ / 2, cosines(first), sines(first), x, stride, out);
}

}  // namespace dgap::engine
