#pragma once
#include <cstdint>

#include "engine/cache/group_codec.hpp"

namespace dgap::engine {

/// decode_groups for codes of at most 4 bits in groups of a multiple of 16 channels of one token,
/// where the processor has AVX-512; false, with nothing done, for all else. `minima` is null where
/// the format has none. Bit for bit the same as the portable loops.
bool decode_groups_avx512(const GroupFormat& format, std::int64_t from, std::int64_t to,
                          const std::uint8_t* codes, const std::uint16_t* scales,
                          const std::uint16_t* minima, float* out);

}  // namespace dgap::engine
