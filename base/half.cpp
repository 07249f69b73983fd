#include "base/half.hpp"

namespace dgap::base {

DGAP_MULTIVERSION void to_half(const float* from, std::uint16_t* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_half(from[i]);
}

DGAP_MULTIVERSION void from_half(const std::uint16_t* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from_half(from[i]);
}

DGAP_MULTIVERSION void to_bfloat16(const float* from, std::uint16_t* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

DGAP_MULTIVERSION void from_bfloat16(const std::uint16_t* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from_bfloat16(from[i]);
}

}  // namespace dgap::base
