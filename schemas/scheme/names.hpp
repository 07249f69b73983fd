#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "schemas/scheme/scheme.hpp"

/// The spelling of enumerations in files.
namespace dgap::schemas {

inline constexpr std::array<std::string_view, 22> kQuantizerNames = {
    "exact",    "sign_mean",    "lloyd_max", "symmetric", "asymmetric",     "asymmetric_fp16",
    "codebook", "normal_float", "q8_0",      "q4_0",      "q4_1",           "q5_0",
    "q5_1",     "iq4_nl",       "fp8_e4m3",  "fp8_e5m2",  "turboquant_mse", "turboquant_prod",
    "kvarn",    "kvquant",      "quanto",    "hqq"};
inline constexpr std::array<std::string_view, 5> kRotationNames = {
    "signed_hadamard", "hadamard", "hadamard_blocks", "hadamard_64", "haar"};
inline constexpr std::array<std::string_view, 2> kSketchNames = {"gaussian", "orthonormal"};
inline constexpr std::array<std::string_view, 2> kAxisNames = {"token", "channel"};
inline constexpr std::array<std::string_view, 5> kWindowNames = {"sliding", "lagging", "flush",
                                                                 "none", "requantize"};
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
inline std::string_view name_of(RotationKind value) {
  return kRotationNames[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(SketchKind value) {
  return kSketchNames[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(PrefillMode value) {
  return kPrefillNames[static_cast<std::size_t>(value)];
}

}  // namespace dgap::schemas
