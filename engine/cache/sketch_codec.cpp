#include "engine/cache/sketch_codec.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <tuple>

#include "base/multiversion.hpp"
#include "engine/cache/built_once.hpp"
#include "engine/cache/lanes.hpp"
#include "engine/cache/reductions.hpp"
#include "engine/cache/rows.hpp"
#include "engine/cache/saturate.hpp"

namespace dgap::engine {
namespace {

using schemas::Quantizer;
using schemas::SketchKind;
using schemas::TensorScheme;

std::optional<GroupFormat> direction_format(TensorScheme tensor, int width) {
  if (tensor.bits == 1) return std::nullopt;
  tensor.bits -= 1;
  tensor.quantizer = Quantizer::turboquant_mse;
  tensor.group_size = 0;
  return GroupFormat(tensor, width);
}

Codec::Layout layout_of(int bits, int width) {
  const auto n = static_cast<std::size_t>(width);
  return {width, 1, packed_bytes(bits - 1, n) + packed_bytes(1, n), 2, 0};
}

DenseMatrix make_sketch(SketchKind kind, int width, std::uint64_t seed) {
  base::Random random(seed, "sketch " + std::to_string(width));
  return kind == SketchKind::gaussian ? gaussian_matrix(width, random) : haar_matrix(width, random);
}

float estimator_factor(SketchKind kind, int width) {
  const double d = width;
  if (kind == SketchKind::gaussian) return static_cast<float>(std::sqrt(std::numbers::pi / 2) / d);
  const double ratio = std::exp(std::lgamma((d + 1) / 2) - std::lgamma(d / 2));
  return static_cast<float>(std::sqrt(std::numbers::pi) * ratio / d);
}

DGAP_MULTIVERSION float norm(const float* x, int n) {
  return static_cast<float>(std::sqrt(lane_sum<true>(x, n)));
}

/// Sums of kVectors * 16 columns from `column` on stay in registers over all nibbles.
template <int kVectors>
DGAP_INLINE void add_columns(std::size_t width, std::size_t column, const float* const* lines,
                             float weight, float* out) {
  Floats16 sums[kVectors] = {};
  for (std::size_t k = 0; k < width / 4; ++k)
    for (int v = 0; v < kVectors; ++v) {
      Floats16 line;
      load(lines[k] + column + 16 * v, line);
      sums[v] += line;
    }
  for (int v = 0; v < kVectors; ++v) {
    float* to = out + column + 16 * v;
    Floats16 value;
    load(to, value);
    store(value + weight * sums[v], to);
  }
}

/// out[c] += weight * (sum over nibbles of their lines), each line [width].
DGAP_MULTIVERSION void add_signs(std::size_t width, const float* nibbles, const std::uint8_t* signs,
                                 float weight, float* out) {
  const float* lines[kMaxHeadDim / 4];
  for (std::size_t k = 0; k < width / 4; ++k) {
    const unsigned nibble = (signs[k / 2] >> (4 * (k % 2))) & 15u;
    lines[k] = nibbles + (16 * k + nibble) * width;
  }
  std::size_t c = 0;
  for (; c + 64 <= width; c += 64) add_columns<4>(width, c, lines, weight, out);
  for (; c + 16 <= width; c += 16) add_columns<1>(width, c, lines, weight, out);
  for (; c < width; ++c) {
    float sum = 0.0f;
    for (std::size_t k = 0; k < width / 4; ++k) sum += lines[k][c];
    out[c] += weight * sum;
  }
}

std::shared_ptr<const SketchCodec::Tables> make_tables(SketchKind kind, int head_dim,
                                                       std::uint64_t seed) {
  auto made = std::make_shared<SketchCodec::Tables>(
      SketchCodec::Tables{make_sketch(kind, head_dim, seed), {}});
  const auto width = static_cast<std::size_t>(head_dim);
  made->nibbles.resize(4 * width * width);
  for (std::size_t k = 0; k < width / 4; ++k)
    for (unsigned nibble = 0; nibble < 16; ++nibble) {
      float* line = &made->nibbles[(16 * k + nibble) * width];
      for (unsigned i = 0; i < 4; ++i) {
        const float* row = &made->sketch.rows()[(4 * k + i) * width];
        const float sign = (nibble >> i & 1u) != 0 ? 1.0f : -1.0f;
        for (std::size_t c = 0; c < width; ++c) line[c] += sign * row[c];
      }
    }
  return made;
}

std::shared_ptr<const SketchCodec::Tables> shared_tables(SketchKind kind, int width,
                                                         std::uint64_t seed) {
  static BuiltOnce<std::tuple<SketchKind, int, std::uint64_t>, SketchCodec::Tables> made;
  return made.get({kind, width, seed}, [&] { return make_tables(kind, width, seed); });
}

}  // namespace

SketchCodec::SketchCodec(const TensorScheme& tensor, int head_dim, std::uint64_t seed)
    : Codec(layout_of(tensor.bits, head_dim)),
      direction_(direction_format(tensor, head_dim)),
      code_bytes_(packed_bytes(tensor.bits - 1, static_cast<std::size_t>(head_dim))),
      tables_(shared_tables(tensor.sketch, head_dim, seed)),
      factor_(estimator_factor(tensor.sketch, head_dim)) {}

void SketchCodec::encode(std::span<const float>, std::int64_t rows, const float* x,
                         std::uint8_t* codes, std::uint16_t* scales, std::uint16_t*) const {
  float residual[kMaxHeadDim];
  std::uint8_t positive[kMaxHeadDim];
  const int n = layout().width;
  for (std::int64_t r = 0; r < rows; ++r) {
    scales[0] = to_half_saturated(norm(x, n));
    std::fill_n(residual, n, 0.0f);
    if (direction_) {
      encode_groups(*direction_, 1, x, codes, scales, nullptr);
      const std::uint16_t unit = base::to_half(1.0f);
      decode_groups(*direction_, 0, 1, codes, &unit, nullptr, residual);
    }
    const float scale = base::from_half(scales[0]);
    for (int c = 0; c < n; ++c) residual[c] = scale > 0.0f ? x[c] / scale - residual[c] : 0.0f;
    scales[1] = to_half_saturated(norm(residual, n));
    tables_->sketch.apply(residual);
    for (int c = 0; c < n; ++c) positive[c] = residual[c] >= 0.0f ? 1 : 0;
    pack_codes(1, positive, width(), codes + code_bytes_);
    x += n;
    codes += layout().row_bytes;
    scales += 2;
  }
}

void SketchCodec::decode(std::span<const float>, std::int64_t from, std::int64_t to,
                         const std::uint8_t* codes, const std::uint16_t* scales,
                         const std::uint16_t*, float* out) const {
  codes += static_cast<std::size_t>(from) * layout().row_bytes;
  scales += static_cast<std::size_t>(from) * 2;
  for (std::int64_t t = from; t < to; ++t) {
    if (direction_)
      decode_groups(*direction_, 0, 1, codes, scales, nullptr, out);
    else
      std::fill_n(out, width(), 0.0f);
    const float weight = base::from_half(scales[0]) * base::from_half(scales[1]) * factor_;
    add_signs(width(), tables_->nibbles.data(), codes + code_bytes_, weight, out);
    out += width();
    codes += layout().row_bytes;
    scales += 2;
  }
}

}  // namespace dgap::engine
