#pragma once
#include "engine/cache/codec.hpp"

namespace dgap::engine {

/// OCP 8-bit floats, x / scale rounded half to even and saturated (vLLM's kv_cache_dtype fp8):
/// e4m3 has no infinity and reaches 448, e5m2 57344. NaN gives 0. The scale is the scheme's, or
/// one number a head: the prefix's largest magnitude over that reach.
class Fp8Codec final : public Codec {
 public:
  Fp8Codec(const schemas::TensorScheme& tensor, int head_dim);
  std::vector<float> calibrate(std::int64_t begin, std::int64_t end,
                               const RowReader& read) const override;
  void encode(std::span<const float> parameters, std::int64_t rows, const float* x,
              std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) const override;
  void decode(std::span<const float> parameters, std::int64_t from, std::int64_t to,
              const std::uint8_t* codes, const std::uint16_t* scales, const std::uint16_t* minima,
              float* out) const override;

 private:
  float scale(std::span<const float> parameters) const {
    return parameters.empty() ? scale_ : parameters[0];
  }

  bool e4m3_;
  float scale_;  // 0 = calibrated
};

}  // namespace dgap::engine
