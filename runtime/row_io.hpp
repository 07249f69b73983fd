#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/include/dgap/runtime.h"
#include "runtime/row.hpp"

/// Rows of logits in the caller's memory: any of the three types, any strides, no alignment needed.
namespace dgap::runtime {

/// Bytes of one logit; 0 for what is no dgap_dtype.
std::size_t element_size(std::int32_t dtype);

/// The first `count` logits of a row as floats: the row itself where it is contiguous f32, else
/// `buffer` [count], filled.
const float* load_row(const std::byte* row, const dgap_logits& view, std::int64_t count,
                      float* buffer);

/// The same as a Row, which holds contiguous bf16 as it is too.
Row row_of(const std::byte* row, const dgap_logits& view, std::int64_t count, float* buffer);

/// Writes one logit (finite), rounded half to even; beyond the type's range its largest finite
/// number.
void store_logit(std::byte* row, const dgap_logits& view, std::int64_t id, float value);

}  // namespace dgap::runtime
