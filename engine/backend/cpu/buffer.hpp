#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace dgap::engine {

/// Zeroed memory of trivial values, aligned for vectors and, where large, for huge pages (strided
/// access to weights and logits would otherwise miss the TLB on every row).
template <class T>
class Buffer {
  static_assert(std::is_trivial_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::int64_t size) { reset(size); }

  /// New zeros; what was there is lost.
  void reset(std::int64_t size) {
    constexpr std::size_t kLine = 64, kHugePage = std::size_t{1} << 21;
    data_.reset();
    size_ = 0;
    if (size <= 0) return;
    const std::size_t wanted = static_cast<std::size_t>(size) * sizeof(T);
    const std::size_t alignment = wanted >= kHugePage ? kHugePage : kLine;
    const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (alignment == kHugePage) madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::memset(data_.get(), 0, bytes);
    size_ = size;
  }
  /// At least `size` values; new zeros when it has to grow.
  void reserve(std::int64_t size) {
    if (size > size_) reset(size);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace dgap::engine
