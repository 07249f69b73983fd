#include "engine/cache/split_codec.hpp"

#include <utility>

namespace dgap::engine {
namespace {

Codec::Layout side_by_side(const Codec::Layout& a, const Codec::Layout& b) {
  return {a.width + b.width, 1, a.row_bytes + b.row_bytes, a.scales + b.scales, 0};
}

}  // namespace

SplitCodec::SplitCodec(std::shared_ptr<const Codec> first, std::shared_ptr<const Codec> rest)
    : Codec(side_by_side(first->layout(), rest->layout())),
      first_(std::move(first)),
      rest_(std::move(rest)) {}

void SplitCodec::encode(std::span<const float>, std::int64_t rows, const float* x,
                        std::uint8_t* codes, std::uint16_t* scales, std::uint16_t*) const {
  const Layout& one = first_->layout();
  for (std::int64_t r = 0; r < rows; ++r) {
    first_->encode({}, 1, x, codes, scales, nullptr);
    rest_->encode({}, 1, x + one.width, codes + one.row_bytes, scales + one.scales, nullptr);
    x += layout().width;
    codes += layout().row_bytes;
    scales += layout().scales;
  }
}

void SplitCodec::decode(std::span<const float>, std::int64_t from, std::int64_t to,
                        const std::uint8_t* codes, const std::uint16_t* scales,
                        const std::uint16_t*, float* out) const {
  const Layout& one = first_->layout();
  codes += static_cast<std::size_t>(from) * layout().row_bytes;
  scales += static_cast<std::size_t>(from) * layout().scales;
  for (std::int64_t t = from; t < to; ++t) {
    first_->decode({}, 0, 1, codes, scales, nullptr, out);
    rest_->decode({}, 0, 1, codes + one.row_bytes, scales + one.scales, nullptr, out + one.width);
    out += layout().width;
    codes += layout().row_bytes;
    scales += layout().scales;
  }
}

}  // namespace dgap::engine
