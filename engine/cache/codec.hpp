#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cache/row_reader.hpp"
#include "schemas/scheme/scheme.hpp"

/// The quantisers of docs/schemes.md: values to packed codes with FP16 scales, and back.
namespace dgap::engine {

/// How rows [tokens, width] of one head become codes. Immutable, one for all heads of a tensor; one
/// virtual call serves many rows.
class Codec {
 public:
  /// What `step` tokens, which are encoded together, store: a row of bytes each, and FP16 numbers.
  struct Layout {
    int width = 0, step = 1;
    std::size_t row_bytes = 0;
    std::size_t scales = 0, minima = 0;  // of a step
  };

  virtual ~Codec() = default;
  const Layout& layout() const { return layout_; }

  /// What one head keeps for ever, made of rows [begin, end) of its prefix. Nothing with most.
  virtual std::vector<float> calibrate(std::int64_t begin, std::int64_t end,
                                       const RowReader& read) const;

  /// Encodes x [rows, width], rows a multiple of the step: codes [rows, row_bytes], scales and
  /// minima [rows / step, layout]. Any input is safe; what NaN and infinity become is unspecified
  /// but finite.
  virtual void encode(std::span<const float> parameters, std::int64_t rows, const float* x,
                      std::uint8_t* codes, std::uint16_t* scales, std::uint16_t* minima) const = 0;

  /// Decodes rows [from, to) of such arrays into out [to - from, width].
  virtual void decode(std::span<const float> parameters, std::int64_t from, std::int64_t to,
                      const std::uint8_t* codes, const std::uint16_t* scales,
                      const std::uint16_t* minima, float* out) const = 0;

 protected:
  explicit Codec(const Layout& layout) : layout_(layout) {}

 private:
  Layout layout_;
};

/// The codec of a valid tensor scheme; null where it is exact, or codes span heads (LayerCodes).
/// `seed` is of random matrices.
std::shared_ptr<const Codec> make_codec(const schemas::TensorScheme& tensor, int head_dim,
                                        std::uint64_t seed);

}  // namespace dgap::engine
