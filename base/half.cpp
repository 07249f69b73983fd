#include "base/half.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <immintrin.h>
#define DGAP_NATIVE_HALVES
#endif

namespace dgap::base {
namespace {

#ifdef DGAP_NATIVE_HALVES

// The processor's conversions, eight values at a time; the rest is left to the portable loops.

__attribute__((target("avx,f16c"))) std::size_t native_to_half(const float* from, std::uint16_t* to,
                                                               std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

__attribute__((target("avx,f16c"))) std::size_t native_from_half(const std::uint16_t* from,
                                                                 float* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  return i;
}

bool has_native() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;  // comes with F16C
  return has;
}

#else

std::size_t native_to_half(const float*, std::uint16_t*, std::size_t) { return 0; }
std::size_t native_from_half(const std::uint16_t*, float*, std::size_t) { return 0; }
bool has_native() { return false; }

#endif

DGAP_MULTIVERSION void portable_to_half(const float* from, std::uint16_t* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_half(from[i]);
}

DGAP_MULTIVERSION void portable_from_half(const std::uint16_t* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from_half(from[i]);
}

}  // namespace

void to_half(const float* from, std::uint16_t* to, std::size_t n) {
  const std::size_t done = has_native() ? native_to_half(from, to, n) : 0;
  portable_to_half(from + done, to + done, n - done);
}

void from_half(const std::uint16_t* from, float* to, std::size_t n) {
  const std::size_t done = has_native() ? native_from_half(from, to, n) : 0;
  portable_from_half(from + done, to + done, n - done);
}

DGAP_MULTIVERSION void to_bfloat16(const float* from, std::uint16_t* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

DGAP_MULTIVERSION void from_bfloat16(const std::uint16_t* from, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from_bfloat16(from[i]);
}

}  // namespace dgap::base
