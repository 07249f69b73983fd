#include "engine/cache/kvarn_codec.hpp"

#include <algorithm>
#include <limits>

#include "base/half.hpp"
#include "base/multiversion.hpp"
#include "engine/cache/packing.hpp"
#include "engine/cache/reductions.hpp"
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

/// One row of a scaled tile: x[i] / (row * column[i]), its minimum and scale, and codes from them.
struct RowCodes {
  float scale = 0.0f, low = 0.0f;
  std::vector<float> scaled;
  std::vector<std::uint8_t> codes;

  explicit RowCodes(std::size_t n) : scaled(n), codes(n) {}
};

DGAP_MULTIVERSION void encode_row(const float* x, double row, const double* column, int bits,
                                  RowCodes& out) {
  const std::size_t n = out.scaled.size();
  const auto top = static_cast<float>((1 << bits) - 1);
  float* y = out.scaled.data();
  for (std::size_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<double>(x[i]) / (row * column[i]));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  out.low = -lane_max<false>(y, static_cast<int>(n), -1.0f, -kInfinity);
  const float high = lane_max<false>(y, static_cast<int>(n), 1.0f, -kInfinity);
  out.scale = (high - out.low) / top;
  out.scale = out.scale > 1e-10f ? out.scale : 1e-10f;
  for (std::size_t i = 0; i < n; ++i) {
    float q = (y[i] - out.low) / out.scale;
    q = q >= 0.0f ? q : 0.0f;
    q = q > top ? top : q;
    q = (q + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: rounds half to even
    out.codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(q));
  }
}

DGAP_MULTIVERSION void multiply(std::size_t n, const std::uint16_t* factors, float* x) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= base::from_half(factors[i]);
}
DGAP_MULTIVERSION void multiply(std::size_t n, float factor, float* x) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

/// What a tile's rows store, as groups of values: with A for the scale and Z for the minimum.
GroupFormat row_format(schemas::TensorScheme tensor, int head_dim) {
  tensor.quantizer = schemas::Quantizer::asymmetric;
  if (tensor.axis == schemas::GroupAxis::token) tensor.group_size = 0;
  return GroupFormat(tensor, head_dim);
}

}  // namespace

KvarnCodec::KvarnCodec(const schemas::TensorScheme& tensor, int head_dim)
    : Codec(layout_of(tensor, head_dim)),
      rows_(row_format(tensor, head_dim)),
      bits_(tensor.bits),
      iterations_(tensor.iterations),
      by_channel_(tensor.axis == schemas::GroupAxis::channel) {}

void KvarnCodec::encode(std::span<const float>, std::int64_t rows, const float* x,
                        std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) const {
  const auto channels = static_cast<std::size_t>(layout().width);
  const auto tokens = static_cast<std::size_t>(layout().step);
  const std::size_t row_count = by_channel_ ? channels : tokens;
  const std::size_t column_count = by_channel_ ? tokens : channels;
  std::vector<float> tile(channels * tokens);
  std::vector<std::uint8_t> matrix(channels * tokens);  // codes, [tokens, channels]
  RowCodes row(column_count);
  for (std::int64_t t = 0; t < rows; t += layout().step, x += channels * tokens) {
    for (std::size_t r = 0; r < row_count; ++r)
      for (std::size_t c = 0; c < column_count; ++c)
        tile[r * column_count + c] = by_channel_ ? x[c * channels + r] : x[r * channels + c];
    const VarianceScales spread =
        variance_scales(row_count, column_count, tile.data(), iterations_);
    for (std::size_t r = 0; r < row_count; ++r) {
      encode_row(&tile[r * column_count], spread.rows[r], spread.columns.data(), bits_, row);
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
  const std::int64_t step = layout().step;
  const auto channels = static_cast<std::size_t>(layout().width);
  for (std::int64_t t = from; t < to;) {
    const std::int64_t tile = t / step, first = tile * step, end = std::min(to, first + step);
    const std::uint16_t* a = scales + static_cast<std::size_t>(tile) * layout().scales;
    const std::uint16_t* z = minima + static_cast<std::size_t>(tile) * layout().minima;
    const std::uint16_t* s = a + layout().minima;
    decode_groups(rows_, t - first, end - first,
                  codes + static_cast<std::size_t>(first) * layout().row_bytes, a, z, out);
    for (; t < end; ++t, out += channels)
      by_channel_ ? multiply(channels, base::from_half(s[t - first]), out)
                  : multiply(channels, s, out);
  }
}

}  // namespace dgap::engine
