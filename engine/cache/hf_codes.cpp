#include "engine/cache/hf_codes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/half.hpp"
#include "engine/cache/packing.hpp"
#include "engine/cache/rows.hpp"

namespace dgap::engine {

using base::from_half;
using schemas::Quantizer;

namespace {

/// Reads of codes whose groups have scales step apart (0: one for all).
template <class Read>
DGAP_INLINE void read_codes(std::size_t n, const std::uint8_t* codes, const HfScale* scales,
                            std::size_t step, float* out, const Read& read) {
  for (std::size_t i = 0; i < n; ++i) {
    const HfScale& group = scales[i * step];
    out[i] = read(codes[i], from_half(group.scale), from_half(group.zero));
  }
}

DGAP_MULTIVERSION void read_run(bool hqq, std::size_t n, const std::uint8_t* codes,
                                const HfScale* scales, std::size_t step, float* out) {
  const auto own = [](float c, float s, float z) { return read_hqq(c, s, z); };
  const auto other = [](float c, float s, float z) { return read_quanto(c, s, z); };
  hqq ? read_codes(n, codes, scales, step, out, own)
      : read_codes(n, codes, scales, step, out, other);
}

}  // namespace

HfCodes::HfCodes(const schemas::TensorScheme& tensor, int heads, int head_dim)
    : tensor_(tensor),
      heads_(heads),
      head_dim_(head_dim),
      row_bytes_(packed_bytes(tensor.bits, static_cast<std::size_t>(head_dim))) {}

void HfCodes::append(std::int64_t end, const HeadReader& read) {
  const auto width = static_cast<std::size_t>(head_dim_);
  std::vector<float> x(static_cast<std::size_t>(heads_) * static_cast<std::size_t>(end) * width);
  for (int head = 0; head < heads_; ++head) {
    float* to = &x[static_cast<std::size_t>(head) * static_cast<std::size_t>(end) * width];
    decode(now_, head, 0, size(), to);
    read(head, size(), end, to + size() * head_dim_);
  }
  for (float& value : x)
    if (!std::isfinite(value)) value = 0.0f;
  before_ = std::exchange(now_, encode(end, x));
}

HfCodes::Stored HfCodes::encode(std::int64_t tokens, std::span<const float> x) const {
  const HfGroups map = groups(tokens);
  const auto width = static_cast<std::size_t>(head_dim_);
  std::vector<std::uint8_t> codes(x.size());
  Stored made{tokens, std::vector<std::uint8_t>(x.size() / width * row_bytes_),
              std::vector<HfScale>(map.count())};
  const auto quantise = tensor_.quantizer == Quantizer::hqq ? quantise_hqq : quantise_quanto;
  quantise(tensor_.bits, map, x, codes, made.scales);
  for (std::size_t row = 0; row * width < x.size(); ++row)
    pack_codes(tensor_.bits, &codes[row * width], width, &made.codes[row * row_bytes_]);
  return made;
}

void HfCodes::read(int head, std::int64_t from, std::int64_t to, float* out) const {
  decode(before_.tokens > 0 ? before_ : now_, head, from, to, out);
}

void HfCodes::decode(const Stored& stored, int head, std::int64_t from, std::int64_t to,
                     float* out) const {
  const HfGroups map = groups(stored.tokens);
  const auto width = static_cast<std::size_t>(head_dim_);
  std::uint8_t codes[kMaxHeadDim];
  for (std::int64_t t = from; t < to; ++t) {
    const auto row = static_cast<std::size_t>(head * stored.tokens + t);
    unpack_codes(tensor_.bits, &stored.codes[row * row_bytes_], width, codes);
    for (std::size_t c = 0; c < width;) {
      const HfGroups::Run run = map.run(row * width + c);
      const std::size_t n = std::min(run.length, width - c);
      read_run(tensor_.quantizer == Quantizer::hqq, n, codes + c, &stored.scales[run.group],
               run.step, out);
      out += n, c += n;
    }
  }
}

std::int64_t HfCodes::bytes() const {
  return static_cast<std::int64_t>(now_.codes.size() + 4 * now_.scales.size());
}

}  // namespace dgap::engine
