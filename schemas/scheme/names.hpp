#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "schemas/scheme/scheme.hpp"

/// The spelling of enumerations in files.
namespace dgap::schemas {

inline constexpr std::array<std::string_view, 6> kQuantizerNames = {
    "exact", "sign_mean", "lloyd_max", "symmetric", "asymmetric", "asymmetric_fp16"};
inline constexpr std::array<std::string_view, 2> kAxisNames = {"token", "channel"};
inline constexpr std::array<std::string_view, 4> kWindowNames = {"sliding", "lagging", "flush",
                                                                 "none"};
inline constexpr std::array<std::string_view, 2> kPrefillNames = {"exact", "quantized"};

inline std::string_view name_of(Quantizer value) {
  return kQuantizerNames[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(GroupAxis value) {
  return kAxisNames[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(WindowRule value) {
  return kWindowNames[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(PrefillMode value) {
  return kPrefillNames[static_cast<std::size_t>(value)];
}

}  // namespace dgap::schemas
