#pragma once
#include "engine/cache/codec.hpp"
#include "engine/cache/group_codec.hpp"

namespace dgap::engine {

/// KVarN: tiles of group_size tokens x width channels, seen as rows and columns: keys have a row
/// per channel (axis channel), values per token (axis token). Row and column scales are iterated
/// until standard deviations are even, then each row is min-max quantised. Reads (q A + Z) s: FP16
/// scales of a tile are A of the rows, then s of the columns; the minima Z of the rows.
class KvarnCodec final : public Codec {
 public:
  KvarnCodec(const schemas::TensorScheme& tensor, int head_dim);
  void encode(std::span<const float>, std::int64_t rows, const float* x, std::uint8_t* codes,
              std::uint16_t* scales, std::uint16_t* minima) const override;
  void decode(std::span<const float>, std::int64_t from, std::int64_t to, const std::uint8_t* codes,
              const std::uint16_t* scales, const std::uint16_t* minima, float* out) const override;

 private:
  GroupFormat rows_;
  int bits_, iterations_;
  bool by_channel_;
};

}  // namespace dgap::engine
