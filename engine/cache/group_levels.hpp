#pragma once
#include <cstdint>
#include <cstring>

#include "engine/cache/group_codec.hpp"
#include "engine/cache/lanes.hpp"

/// What the codes of a GroupFormat mean.
namespace dgap::engine {

/// A code's value, given its group's scale and minimum, for one code or sixteen.
struct SignMean {
  template <class Int, class Float>
  DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) const {
    out = __builtin_bit_cast(Float, __builtin_bit_cast(Int, scale) ^ ((code ^ 1) << 31));
  }
};
struct LloydMax {
  template <class Int, class Float>
  DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) const {
    const Int inner = -(((code + 1) >> 1) & 1);  // all ones for codes 1 and 2
    const Int magnitude = (inner & __builtin_bit_cast(Int, scale * kLloydInner)) |
                          (~inner & __builtin_bit_cast(Int, scale * kLloydOuter));
    out = __builtin_bit_cast(Float, magnitude ^ (((code >> 1) ^ 1) << 31));
  }
};
struct Offset {
  int zero;  // the code that reads 0
  template <class Int, class Float>
  DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) const {
    to_float(code - zero, out);
    out = out * scale;
  }
};
struct Affine {
  template <class Int, class Float>
  DGAP_INLINE void value(const Int& code, const Float& scale, const Float& minimum,
                         Float& out) const {
    to_float(code, out);
    out = out * scale + minimum;
  }
};
struct Table {
  float levels[16];
  template <class Int, class Float>
  DGAP_INLINE void value(const Int& code, const Float& scale, const Float&, Float& out) const {
    look_up(levels, code, out);
    out = out * scale;
  }
};

/// Calls run(level) with the level of a format of kBits.
template <int kBits, class Run>
DGAP_INLINE void with_level(const GroupFormat& format, const Run& run) {
  using schemas::Quantizer;
  if constexpr (kBits == 1)
    if (format.quantizer == Quantizer::sign_mean) return run(SignMean());
  if constexpr (kBits == 2)
    if (format.quantizer == Quantizer::lloyd_max) return run(LloydMax());
  if constexpr (kBits <= 4) {
    if (format.level_count > 0) {
      Table table;
      std::memcpy(table.levels, format.levels, sizeof table.levels);
      return run(table);
    }
  }
  if (format.has_minima()) return run(Affine());
  const bool even = format.quantizer == Quantizer::q4_0 || format.quantizer == Quantizer::q5_0;
  run(Offset{(1 << (kBits - 1)) - (even ? 0 : 1)});
}

}  // namespace dgap::engine
