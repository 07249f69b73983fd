#include "tests/runtime/counting_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> count{0};
std::atomic<std::size_t> bytes{0};
}  // namespace

void* operator new(std::size_t size) {
  ++count;
  bytes += size;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace dgap::test {
long allocations() { return count; }
std::size_t allocated_bytes() { return bytes; }
}  // namespace dgap::test
