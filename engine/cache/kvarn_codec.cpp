#include "engine/cache/kvarn_codec.hpp"

#include <algorithm>
#include <cmath>

#include "base/half.hpp"
#include "base/multiversion.hpp"
#include "engine/cache/packing.hpp"
#include "engine/cache/rows.hpp"
#include "engine/cache/saturate.hpp"
#include "engine/cache/variance_scales.hpp"

namespace dgap::engine {
namespace {

Codec::Layout layout_of(const schemas::TensorScheme& tensor, int head_dim) {
  const auto width = static_cast<std::size_t>(head_dim);
  const auto tokens = static_cast<std::size_t>(tensor.group_size);
  const bool by_channel = tensor.axis == schemas::GroupAxis::channel;
  return {head_dim, tensor.group_size, packed_bytes(tensor.bits, width), width + tokens,
          by_channel ? width : tokens};
}

/// Codes of one row of a scaled tile, and its scale and minimum.
struct RowCodes {
  float scale, low;
  std::vector<std::uint8_t> codes;

  void make(const std::vector<float>& x, int bits) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    const auto top = static_cast<float>((1 << bits) - 1);
    low = *least;
    scale = std::max((*most - low) / top, 1e-10f);
    codes.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float q = std::nearbyint((x[i] - low) / scale);
      codes[i] = static_cast<std::uint8_t>(q >= 0.0f ? std::min(q, top) : 0.0f);
    }
  }
};

/// out[c] = (codes[c] * a[c] + z[c]) * s, or with one a and z and s[c].
DGAP_MULTIVERSION void read_by_channel(std::size_t n, const std::uint8_t* codes,
                                       const std::uint16_t* a, const std::uint16_t* z, float s,
                                       float* out) {
  for (std::size_t c = 0; c < n; ++c)
    out[c] = (static_cast<float>(codes[c]) * base::from_half(a[c]) + base::from_half(z[c])) * s;
}
DGAP_MULTIVERSION void read_by_token(std::size_t n, const std::uint8_t* codes, float a, float z,
                                     const std::uint16_t* s, float* out) {
  for (std::size_t c = 0; c < n; ++c)
    out[c] = (static_cast<float>(codes[c]) * a + z) * base::from_half(s[c]);
}

}  // namespace

KvarnCodec::KvarnCodec(const schemas::TensorScheme& tensor, int head_dim)
    : Codec(layout_of(tensor, head_dim)),
      bits_(tensor.bits),
      iterations_(tensor.iterations),
      by_channel_(tensor.axis == schemas::GroupAxis::channel) {}

void KvarnCodec::encode(std::span<const float>, std::int64_t rows, const float* x,
                        std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) const {
  const auto channels = static_cast<std::size_t>(layout().width);
  const auto tokens = static_cast<std::size_t>(layout().step);
  const std::size_t row_count = by_channel_ ? channels : tokens;
  const std::size_t column_count = by_channel_ ? tokens : channels;
  std::vector<float> tile(channels * tokens), line(column_count);
  std::vector<std::uint8_t> matrix(channels * tokens);  // codes, [tokens, channels]
  RowCodes row;
  for (std::int64_t t = 0; t < rows; t += layout().step, x += channels * tokens) {
    for (std::size_t r = 0; r < row_count; ++r)
      for (std::size_t c = 0; c < column_count; ++c)
        tile[r * column_count + c] = by_channel_ ? x[c * channels + r] : x[r * channels + c];
    const VarianceScales spread =
        variance_scales(row_count, column_count, tile.data(), iterations_);
    for (std::size_t r = 0; r < row_count; ++r) {
      for (std::size_t c = 0; c < column_count; ++c)
        line[c] = static_cast<float>(static_cast<double>(tile[r * column_count + c]) /
                                     (spread.rows[r] * spread.columns[c]));
      row.make(line, bits_);
      const auto factor = static_cast<float>(spread.rows[r]);
      *scales++ = to_half_saturated(row.scale * factor);
      *minima++ = to_half_saturated(row.low * factor);
      for (std::size_t c = 0; c < column_count; ++c)
        matrix[by_channel_ ? c * channels + r : r * channels + c] = row.codes[c];
    }
    for (const double s : spread.columns) *scales++ = to_half_saturated(static_cast<float>(s));
    for (std::size_t token = 0; token < tokens; ++token, codes += layout().row_bytes)
      pack_codes(bits_, &matrix[token * channels], channels, codes);
  }
}

void KvarnCodec::decode(std::span<const float>, std::int64_t from, std::int64_t to,
                        const std::uint8_t* codes, const std::uint16_t* scales,
                        const std::uint16_t* minima, float* out) const {
  const auto channels = static_cast<std::size_t>(layout().width);
  std::uint8_t row[kMaxHeadDim];
  for (std::int64_t t = from; t < to; ++t, out += channels) {
    const auto tile = static_cast<std::size_t>(t / layout().step);
    const auto token = static_cast<std::size_t>(t % layout().step);
    const std::uint16_t* a = scales + tile * layout().scales;
    const std::uint16_t* z = minima + tile * layout().minima;
    const std::uint16_t* s = a + layout().minima;
    unpack_codes(bits_, codes + static_cast<std::size_t>(t) * layout().row_bytes, channels, row);
    if (by_channel_)
      read_by_channel(channels, row, a, z, base::from_half(s[token]), out);
    else
      read_by_token(channels, row, base::from_half(a[token]), base::from_half(z[token]), s, out);
  }
}

}  // namespace dgap::engine
