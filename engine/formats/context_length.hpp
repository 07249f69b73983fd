#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Raises context_length to what RoPE scaling makes of it: files give the length before (Qwen2.5's
/// advice for YaRN, most linear and dynamic ones) or after it (Llama 3). At most factor * original,
/// never factor times a length that is scaled already.
inline void extend_context(HyperParameters& p) {
  const RopeParameters& rope = p.rope;
  if (rope.scaling == RopeParameters::Scaling::none) return;
  const std::int64_t original =
      rope.original_context > 0 ? rope.original_context : p.context_length;
  const double scaled = std::min(rope.factor * static_cast<double>(original),
                                 double{std::numeric_limits<std::int32_t>::max()});
  p.context_length = std::max(p.context_length, static_cast<std::int64_t>(scaled));
}

}  // namespace dgap::engine
