#include "runtime/row_io.hpp"

#include <algorithm>
#include <cstring>

#include "base/half.hpp"
#include "base/multiversion.hpp"

namespace dgap::runtime {
namespace {

constexpr float kLargestHalf = 65504.0f;
constexpr float kLargestBfloat16 = 0x1.fep127f;

template <class T>
DGAP_INLINE T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

DGAP_MULTIVERSION void load_contiguous_half(const std::byte* row, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = base::from_half(load<std::uint16_t>(row + i * 2));
  }
}

DGAP_MULTIVERSION void load_contiguous_bfloat16(const std::byte* row, std::int64_t count,
                                                float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = base::from_bfloat16(load<std::uint16_t>(row + i * 2));
  }
}

void load_strided(const std::byte* row, const dgap_logits& view, std::int64_t count, float* out) {
  const std::int64_t stride = view.element_stride;
  switch (view.dtype) {
    case DGAP_F32:
      for (std::int64_t i = 0; i < count; ++i) out[i] = load<float>(row + i * stride);
      break;
    case DGAP_F16:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = base::from_half(load<std::uint16_t>(row + i * stride));
      }
      break;
    case DGAP_BF16:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = base::from_bfloat16(load<std::uint16_t>(row + i * stride));
      }
      break;
  }
}

}  // namespace

std::size_t element_size(std::int32_t dtype) {
  switch (dtype) {
    case DGAP_F32:
      return 4;
    case DGAP_F16:
    case DGAP_BF16:
      return 2;
  }
  return 0;
}

const float* load_row(const std::byte* row, const dgap_logits& view, std::int64_t count,
                      float* buffer) {
  const bool contiguous =
      view.element_stride == static_cast<std::int64_t>(element_size(view.dtype));
  if (!contiguous) {
    load_strided(row, view, count, buffer);
  } else if (view.dtype == DGAP_F16) {
    load_contiguous_half(row, count, buffer);
  } else if (view.dtype == DGAP_BF16) {
    load_contiguous_bfloat16(row, count, buffer);
  } else if (reinterpret_cast<std::uintptr_t>(row) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(row);
  } else {
    std::memcpy(buffer, row, static_cast<std::size_t>(count) * sizeof(float));
  }
  return buffer;
}

Row row_of(const std::byte* row, const dgap_logits& view, std::int64_t count, float* buffer) {
  const auto n = static_cast<std::size_t>(count);
  const bool aligned = reinterpret_cast<std::uintptr_t>(row) % alignof(std::uint16_t) == 0;
  if (view.dtype == DGAP_BF16 && view.element_stride == 2 && aligned) {
    return Row(std::span(reinterpret_cast<const std::uint16_t*>(row), n));
  }
  return Row(std::span(load_row(row, view, count, buffer), n));
}

void store_logit(std::byte* row, const dgap_logits& view, std::int64_t id, float value) {
  std::byte* const to = row + id * view.element_stride;
  if (view.dtype == DGAP_F32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const bool half = view.dtype == DGAP_F16;
  const float largest = half ? kLargestHalf : kLargestBfloat16;
  const float held = std::clamp(value, -largest, largest);
  const std::uint16_t bits = half ? base::to_half(held) : base::to_bfloat16(held);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace dgap::runtime
