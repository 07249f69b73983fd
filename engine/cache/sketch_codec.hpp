#pragma once
#include <optional>

#include "engine/cache/codec.hpp"
#include "engine/cache/group_codec.hpp"
#include "engine/cache/orthogonal.hpp"

namespace dgap::engine {

/// TurboQuant_prod (arXiv:2504.19874 section 3.2) of rotated rows x: scale n = FP16(||x||), codes
/// of b - 1 bits of u = x / n, scale g = FP16(||r||) of the residual r = u - c, and the signs z of
/// S r. Reads n (c + k g S^T z), whose products with a query are unbiased: k = sqrt(pi / 2) / d for
/// a Gaussian S, sqrt(pi) Gamma((d + 1) / 2) / (d Gamma(d / 2)) for an orthonormal one. A row is
/// the packed codes, then the signs (bit 1 = not negative); width a multiple of 8.
class SketchCodec final : public Codec {
 public:
  SketchCodec(const schemas::TensorScheme& tensor, int head_dim, std::uint64_t seed);
  void encode(std::span<const float>, std::int64_t rows, const float* x, std::uint8_t* codes,
              std::uint16_t* scales, std::uint16_t* minima) const override;
  void decode(std::span<const float>, std::int64_t from, std::int64_t to, const std::uint8_t* codes,
              const std::uint16_t* scales, const std::uint16_t* minima, float* out) const override;

  const DenseMatrix& sketch() const { return tables_->sketch; }
  float factor() const { return factor_; }

  /// A sketch, and what reads it: S^T z of every four signs, [width / 4, 16, width].
  struct Tables {
    DenseMatrix sketch;
    std::vector<float> nibbles;
  };

 private:
  std::size_t width() const { return static_cast<std::size_t>(layout().width); }

  std::optional<GroupFormat> direction_;  // of b - 1 bits; none at b = 1
  std::size_t code_bytes_;
  std::shared_ptr<const Tables> tables_;
  float factor_;
};

}  // namespace dgap::engine
