#pragma once
#include <cstdint>
#include <span>

#include "base/half.hpp"
#include "base/multiversion.hpp"

namespace dgap::runtime {

/// A contiguous, aligned row of logits: f32, or bf16.
class Row {
 public:
  Row() = default;
  Row(std::span<const float> logits) : wide_(logits.data()), size_(std::ssize(logits)) {}
  explicit Row(std::span<const std::uint16_t> bfloat16)
      : narrow_(bfloat16.data()), size_(std::ssize(bfloat16)) {}

  std::int64_t size() const { return size_; }
  float operator[](std::int64_t i) const {
    return wide_ != nullptr ? wide_[i] : base::from_bfloat16(narrow_[i]);
  }
  /// f of the pointer to the elements, of whichever type.
  template <class F>
  auto visit(const F& f) const {
    return wide_ != nullptr ? f(wide_) : f(narrow_);
  }

 private:
  const float* wide_ = nullptr;
  const std::uint16_t* narrow_ = nullptr;
  std::int64_t size_ = 0;
};

/// An element, as it is and as a logit.
DGAP_INLINE float value(float x) { return x; }
DGAP_INLINE float value(std::uint16_t x) { return base::from_bfloat16(x); }

}  // namespace dgap::runtime
