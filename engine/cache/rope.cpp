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
  DGAP_INLINE void operator()(std::int64_t, Float&) const {}
};
struct Scaled {
  const float* scale;
  const float* shift;
  DGAP_INLINE void operator()(std::int64_t i, Floats16& x) const {
    Floats16 factor, offset;
    load(scale + i, factor);
    load(shift + i, offset);
    x = x * factor + offset;
  }
  DGAP_INLINE void operator()(std::int64_t i, float& x) const { x = x * scale[i] + shift[i]; }
};

/// One vector of 2 * half channels; x and out may be the same.
template <class Before>
DGAP_INLINE void rotate(const Before& before, const float* x, const float* cosines,
                        const float* sines, std::int64_t half, float* out) {
  std::int64_t i = 0;
  for (; i + 16 <= half; i += 16) {
    Floats16 a, b, c, s;
    load(x + i, a);
    load(x + i + half, b);
    load(cosines + i, c);
    load(sines + i, s);
    before(i, a);
    before(i + half, b);
    store(a * c - b * s, out + i);
    store(b * c + a * s, out + i + half);
  }
  for (; i < half; ++i) {
    float a = x[i], b = x[i + half];
    before(i, a);
    before(i + half, b);
    out[i] = a * cosines[i] - b * sines[i];
    out[i + half] = b * cosines[i] + a * sines[i];
  }
}

DGAP_MULTIVERSION void rotate_in_place(std::int64_t tokens, std::int64_t heads, std::int64_t half,
                                       const float* cosines, const float* sines, float* x) {
  for (std::int64_t t = 0; t < tokens; ++t, cosines += half, sines += half)
    for (std::int64_t h = 0; h < heads; ++h, x += 2 * half)
      rotate(Unchanged(), x, cosines, sines, half, x);
}

DGAP_MULTIVERSION void rotate_scaled(std::int64_t rows, std::int64_t half, const float* scale,
                                     const float* shift, const float* cosines, const float* sines,
                                     float* x) {
  const Scaled before{scale, shift};
  for (std::int64_t r = 0; r < rows; ++r, cosines += half, sines += half, x += 2 * half)
    rotate(before, x, cosines, sines, half, x);
}

DGAP_MULTIVERSION void rotate_rows(std::int64_t rows, std::int64_t half, const float* cosines,
                                   const float* sines, const float* x, std::int64_t stride,
                                   float* out) {
  for (std::int64_t r = 0; r < rows;
       ++r, cosines += half, sines += half, x += stride, out += 2 * half)
    rotate(Unchanged(), x, cosines, sines, half, out);
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
