#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/formats/gguf_types.hpp"

namespace dgap::engine {

/// One row (or any run of whole blocks) of a GGUF tensor to f32: `elements` values, a multiple of
/// the type's block, from `elements / block.elements * block.bytes` bytes. Every product and sum is
/// rounded to f32 once, in ggml's order, so results are bit-equal to ggml's and to those of the
/// Python package `gguf`.
void dequantize_row(GgufTensorType type, const std::byte* from, std::int64_t elements, float* to);

}  // namespace dgap::engine
