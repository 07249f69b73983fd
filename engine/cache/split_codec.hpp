#pragma once
#include <memory>

#include "engine/cache/codec.hpp"

namespace dgap::engine {

/// Two token-wise codecs without minima or parameters side by side: the first channels, and the
/// rest. A row is the first one's bytes, then the second one's; its scales likewise.
class SplitCodec final : public Codec {
 public:
  SplitCodec(std::shared_ptr<const Codec> first, std::shared_ptr<const Codec> rest);
  void encode(std::span<const float>, std::int64_t rows, const float* x, std::uint8_t* codes,
              std::uint16_t* scales, std::uint16_t* minima) const override;
  void decode(std::span<const float>, std::int64_t from, std::int64_t to, const std::uint8_t* codes,
              const std::uint16_t* scales, const std::uint16_t* minima, float* out) const override;

 private:
  std::shared_ptr<const Codec> first_, rest_;
};

}  // namespace dgap::engine
