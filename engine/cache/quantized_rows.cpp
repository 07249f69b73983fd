#include "engine/cache/quantized_rows.hpp"

#include <cassert>

namespace dgap::engine {

void QuantizedRows::reserve(std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t scales = count / static_cast<std::size_t>(codec_.step()) * codec_.step_scales();
  codes_.reserve(count * codec_.row_bytes());
  scales_.reserve(scales);
  if (codec_.has_minima()) minima_.reserve(scales);
}

void QuantizedRows::append(std::int64_t rows, const float* x) {
  assert(rows % codec_.step() == 0);
  const std::size_t old_codes = codes_.size(), old_scales = scales_.size();
  const auto count = static_cast<std::size_t>(rows);
  codes_.resize(old_codes + count * codec_.row_bytes());
  scales_.resize(old_scales +
                 count / static_cast<std::size_t>(codec_.step()) * codec_.step_scales());
  if (codec_.has_minima()) minima_.resize(scales_.size());
  encode(codec_, rows, x, codes_.data() + old_codes, scales_.data() + old_scales,
         codec_.has_minima() ? minima_.data() + old_scales : nullptr);
  size_ += rows;
}

void QuantizedRows::read(std::int64_t from, std::int64_t to, float* out) const {
  assert(0 <= from && from <= to && to <= size_);
  decode(codec_, from, to, codes_.data(), scales_.data(), minima_.data(), out);
}

std::int64_t QuantizedRows::bytes() const {
  return static_cast<std::int64_t>(codes_.size() + 2 * (scales_.size() + minima_.size()));
}

}  // namespace dgap::engine
