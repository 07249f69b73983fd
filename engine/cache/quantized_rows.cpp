#include "engine/cache/quantized_rows.hpp"

#include <cassert>

namespace dgap::engine {

void QuantizedRows::reserve(std::int64_t rows) {
  const Codec::Layout& layout = codec_->layout();
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t steps = count / static_cast<std::size_t>(layout.step);
  codes_.reserve(count * layout.row_bytes);
  scales_.reserve(steps * layout.scales);
  minima_.reserve(steps * layout.minima);
}

void QuantizedRows::append(std::int64_t rows, const float* x) {
  const Codec::Layout& layout = codec_->layout();
  assert(rows % layout.step == 0);
  const std::size_t codes = codes_.size(), scales = scales_.size(), minima = minima_.size();
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t steps = count / static_cast<std::size_t>(layout.step);
  codes_.resize(codes + count * layout.row_bytes);
  scales_.resize(scales + steps * layout.scales);
  minima_.resize(minima + steps * layout.minima);
  codec_->encode(parameters_, rows, x, codes_.data() + codes, scales_.data() + scales,
                 minima_.data() + minima);
  size_ += rows;
}

void QuantizedRows::read(std::int64_t from, std::int64_t to, float* out) const {
  assert(0 <= from && from <= to && to <= size_);
  codec_->decode(parameters_, from, to, codes_.data(), scales_.data(), minima_.data(), out);
}

std::int64_t QuantizedRows::bytes() const {
  return static_cast<std::int64_t>(codes_.size() + 2 * (scales_.size() + minima_.size()));
}

}  // namespace dgap::engine
