#include "engine/cache/kvquant_codes.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/half.hpp"
#include "engine/cache/kvquant_row.hpp"
#include "engine/cache/lanes.hpp"
#include "engine/cache/packing.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {
namespace {

using base::from_half;

constexpr std::int64_t kChunkRows = 16;

template <int kBits>
DGAP_INLINE void decode_bits(int width, const std::uint8_t* packed, const float (&reads)[16],
                             const float* offset, const float* scale, std::size_t step,
                             float* out) {
  int c = 0;
  for (; c + 16 <= width; c += 16) {
    Ints16 codes;
    Floats16 values, scales, offsets;
    unpack<kBits>(packed + c / 8 * kBits, codes);
    look_up(reads, codes, values);
    if (step == 0)
      broadcast(*scale, scales), broadcast(*offset, offsets);
    else
      load(scale + c, scales), load(offset + c, offsets);
    store(values * scales + offsets, out + c);
  }
  for (; c < width; ++c) {
    const std::size_t at = static_cast<std::size_t>(c) * step;
    const auto i = static_cast<std::size_t>(c);
    out[c] = reads[code_at(kBits, packed, i)] * scale[at] + offset[at];
  }
}

/// out[c] = reads[code] * scale + offset, of the channel (step 1) or of all (step 0).
DGAP_MULTIVERSION void decode_values(int bits, int width, const std::uint8_t* packed,
                                     const float (&reads)[16], const float* offset,
                                     const float* scale, std::size_t step, float* out) {
  switch (bits) {
    case 2:
      return decode_bits<2>(width, packed, reads, offset, scale, step, out);
    case 3:
      return decode_bits<3>(width, packed, reads, offset, scale, step, out);
    default:
      return decode_bits<4>(width, packed, reads, offset, scale, step, out);
  }
}

/// Codes of values in [-1, 1] and about it: how many thresholds they reach.
DGAP_MULTIVERSION void code_values(std::size_t n, const float* x, const float* offset,
                                   const float* scale, std::size_t step, int count,
                                   const float* thresholds, std::uint8_t* codes) {
  for (std::size_t c = 0; c < n; ++c) {
    const float unit = to_unit(x[c], offset[c * step], scale[c * step]);
    int code = 0;
    for (int k = 0; k < count; ++k) code += unit >= thresholds[k] ? 1 : 0;
    codes[c] = static_cast<std::uint8_t>(code);
  }
}

}  // namespace

KvquantCodes::KvquantCodes(const schemas::TensorScheme& tensor, int heads, int head_dim,
                           const schemas::TensorCalibration& calibration)
    : bits_(tensor.bits),
      heads_(heads),
      head_dim_(head_dim),
      by_token_(tensor.axis == schemas::GroupAxis::token),
      sparse_(tensor.outliers > 0.0),
      shifted_reads_(tensor.q_norm),
      lower_(calibration.lower),
      upper_(calibration.upper),
      row_bytes_(packed_bytes(tensor.bits, static_cast<std::size_t>(head_dim))) {
  const int width = heads * head_dim;
  if (width > std::numeric_limits<std::uint16_t>::max() + 1)
    throw base::UsageError("kvquant keeps the channels of outliers in 16 bits: a layer of " +
                           std::to_string(width) + " channels is too wide");
  if (by_token_) per_end_ = outliers_per_end(tensor.outliers, width);
  for (std::size_t c = 0; c < lower_.size(); ++c) {
    offset_.push_back((upper_[c] + lower_[c]) / 2);
    scale_.push_back((upper_[c] - lower_[c]) / 2);
  }
  std::copy(calibration.reads.begin(), calibration.reads.end(), reads_);
  const std::vector<float>& levels = calibration.levels;
  for (std::size_t k = 0; k + 1 < levels.size(); ++k)
    thresholds_[k] = static_cast<float>(
        (static_cast<double>(levels[k]) + static_cast<double>(levels[k + 1])) / 2);
}

void KvquantCodes::append(std::int64_t end, const HeadReader& read) {
  const auto width = static_cast<std::size_t>(heads_) * static_cast<std::size_t>(head_dim_);
  const auto head_dim = static_cast<std::size_t>(head_dim_);
  std::vector<float> rows(static_cast<std::size_t>(kChunkRows) * width);
  std::vector<float> one(static_cast<std::size_t>(kChunkRows) * head_dim);
  while (size_ < end) {
    const std::int64_t count = std::min(kChunkRows, end - size_);
    for (int h = 0; h < heads_; ++h) {
      read(h, size_, size_ + count, one.data());
      for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
        std::transform(&one[r * head_dim], &one[r * head_dim] + head_dim,
                       &rows[r * width + static_cast<std::size_t>(h) * head_dim], finite_or_zero);
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
      append_row(std::span(rows).subspan(r * width, width));
    size_ += count;
  }
}

void KvquantCodes::append_row(std::span<float> x) {
  if (by_token_) {
    const RowRange range = mark_outliers(x, per_end_, is_outlier_);
    ranges_.push_back(to_half_saturated(range.offset));
    ranges_.push_back(to_half_saturated(range.scale));
    encode(x, &range.offset, &range.scale, 0);
  } else {
    is_outlier_.resize(x.size());
    for (std::size_t c = 0; c < x.size(); ++c)
      is_outlier_[c] = sparse_ && (x[c] > upper_[c] || x[c] < lower_[c]) ? 1 : 0;
    encode(x, offset_.data(), scale_.data(), 1);
  }
  if (!sparse_) return;
  for (std::size_t c = 0; c < x.size(); ++c) {
    if (is_outlier_[c] == 0) continue;
    channels_.push_back(static_cast<std::uint16_t>(c));
    outliers_.push_back(to_half_saturated(x[c]));
  }
  row_ends_.push_back(static_cast<std::uint32_t>(channels_.size()));
}

void KvquantCodes::encode(std::span<const float> x, const float* offset, const float* scale,
                          std::size_t step) {
  row_codes_.resize(x.size());
  code_values(x.size(), x.data(), offset, scale, step, (1 << bits_) - 1, thresholds_,
              row_codes_.data());
  for (std::size_t c = 0; c < x.size(); ++c)
    if (is_outlier_[c] != 0) row_codes_[c] = 0;
  const auto head_dim = static_cast<std::size_t>(head_dim_);
  const std::size_t old = codes_.size();
  codes_.resize(old + static_cast<std::size_t>(heads_) * row_bytes_);
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads_); ++h)
    pack_codes(bits_, &row_codes_[h * head_dim], head_dim, &codes_[old + h * row_bytes_]);
}

void KvquantCodes::read(int head, std::int64_t from, std::int64_t to, float* out) const {
  for (std::int64_t t = from; t < to; ++t, out += head_dim_) decode_row(head, t, out);
}

void KvquantCodes::decode_row(int head, std::int64_t token, float* out) const {
  const auto t = static_cast<std::size_t>(token), h = static_cast<std::size_t>(head);
  const std::size_t first = h * static_cast<std::size_t>(head_dim_);
  const std::uint8_t* packed = &codes_[(t * static_cast<std::size_t>(heads_) + h) * row_bytes_];
  if (by_token_) {
    const float offset = from_half(ranges_[2 * t]), scale = from_half(ranges_[2 * t + 1]);
    decode_values(bits_, head_dim_, packed, reads_, &offset, &scale, 0, out);
  } else {
    decode_values(bits_, head_dim_, packed, reads_, &offset_[first], &scale_[first], 1, out);
  }
  if (!sparse_) return;
  const auto begin = channels_.begin() + (t == 0 ? 0 : row_ends_[t - 1]);
  const auto end = channels_.begin() + row_ends_[t];
  for (auto c = std::lower_bound(begin, end, first);
       c != end && *c < first + static_cast<std::size_t>(head_dim_); ++c)
    out[*c - first] = from_half(outliers_[static_cast<std::size_t>(c - channels_.begin())]);
}

std::int64_t KvquantCodes::bytes() const {
  return static_cast<std::int64_t>(codes_.size() + 2 * (ranges_.size() + channels_.size()) +
                                   2 * outliers_.size() + 4 * row_ends_.size());
}

std::int64_t KvquantCodes::constant_bytes() const {
  const std::int64_t tables = shifted_reads_ ? 2 : 1;
  return static_cast<std::int64_t>(4 * lower_.size()) + tables * (std::int64_t{4} << bits_);
}

}  // namespace dgap::engine
