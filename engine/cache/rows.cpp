#include "engine/cache/rows.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "base/half.hpp"

namespace dgap::engine {
namespace {

constexpr std::int64_t kChunkRows = 8;

}  // namespace

void Rows::reserve(std::int64_t tokens) {
  const auto values = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(width_);
  type_ == ExactCacheType::f16 ? halves_.reserve(values) : floats_.reserve(values);
}

std::int64_t Rows::bytes() const {
  return (end_ - begin_) * width_ * (type_ == ExactCacheType::f16 ? 2 : 4);
}

void Rows::append(std::int64_t rows, const float* x, std::int64_t stride) {
  const auto width = static_cast<std::size_t>(width_);
  const std::size_t old = halves_.size();
  if (type_ == ExactCacheType::f16) halves_.resize(old + static_cast<std::size_t>(rows) * width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
    if (type_ == ExactCacheType::f16)
      base::to_half(row, halves_.data() + old + static_cast<std::size_t>(r) * width, width);
    else
      floats_.insert(floats_.end(), row, row + width);
  }
  end_ += rows;
}

void Rows::append_rotated(const RopeTable& rope, std::int64_t rows, const float* x,
                          std::int64_t stride) {
  std::array<float, kChunkRows * kMaxHeadDim> rotated;
  for (std::int64_t t = 0; t < rows; t += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, rows - t);
    rope.apply(end_, count, x + t * stride, stride, rotated.data());
    append(count, rotated.data(), width_);
  }
}

void Rows::drop_before(std::int64_t token) {
  const std::int64_t rows = std::clamp<std::int64_t>(token - begin_, 0, end_ - begin_);
  begin_ += rows;
  front_ += static_cast<std::size_t>(rows * width_);
  // Moved to the front only once at least half of the buffer is free.
  const auto compact = [&](auto& values) {
    if (2 * front_ < values.size() || front_ == 0) return;
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(front_));
    front_ = 0;
  };
  type_ == ExactCacheType::f16 ? compact(halves_) : compact(floats_);
}

void Rows::read(std::int64_t from, std::int64_t to, float* out) const {
  assert(begin_ <= from && from <= to && to <= end_);
  const std::size_t first = front_ + static_cast<std::size_t>((from - begin_) * width_);
  const auto count = static_cast<std::size_t>((to - from) * width_);
  if (type_ == ExactCacheType::f16)
    base::from_half(halves_.data() + first, out, count);
  else
    std::copy_n(floats_.data() + first, count, out);
}

}  // namespace dgap::engine
