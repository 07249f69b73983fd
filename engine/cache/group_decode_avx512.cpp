// A group's scale and minimum leave at most 16 values to its codes. So they are worked out once per
// group, by the same operations as one by one, and each code then only picks one: a shift and a
// permutation for 16 codes.
#include "engine/cache/group_decode_avx512.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(DGAP_NO_MULTIVERSION)
#define DGAP_AVX512_DECODE
#include <immintrin.h>

#include <type_traits>

#include "engine/cache/group_levels.hpp"
#endif

namespace dgap::engine {

#ifdef DGAP_AVX512_DECODE
namespace {

#define DGAP_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}

/// Where a lane's code begins in the word of it; lanes from 8 on have one of their own for 3 and 4
/// bits.
template <int kBits>
DGAP_AVX512 inline __m512i first_bits() {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  if constexpr (kBits == 4)
    return _mm512_slli_epi32(_mm512_and_epi32(lane, _mm512_set1_epi32(7)), 2);
  if constexpr (kBits == 3)  // eight codes are 24 bits; the second word begins a byte early
    return _mm512_set_epi32(29, 26, 23, 20, 17, 14, 11, 8, 21, 18, 15, 12, 9, 6, 3, 0);
  return _mm512_mullo_epi32(lane, _mm512_set1_epi32(kBits));
}

/// Sixteen codes in the low bits of the lanes, whatever above them.
template <int kBits>
DGAP_AVX512 inline __m512i indices(const std::uint8_t* packed, __m512i first_bit) {
  __m512i words;
  if constexpr (kBits <= 2) {
    words = _mm512_set1_epi32(load_word(packed, 2 * kBits));
  } else {
    constexpr int kSecond = kBits == 4 ? 4 : 2;
    words = _mm512_mask_set1_epi32(_mm512_set1_epi32(load_word(packed, 4)), 0xff00,
                                   load_word(packed + kSecond, 4));
  }
  return _mm512_srlv_epi32(words, first_bit);
}

/// Up to 16 FP16 numbers, zeros after.
DGAP_AVX512 inline __m512 widen(const std::uint16_t* halves, std::size_t count) {
  const auto mask = static_cast<__mmask16>(count >= 16 ? 0xffff : (1 << count) - 1);
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, halves));
}

template <int kBits, class Level>
DGAP_AVX512 void decode(const Level& level, int group, std::size_t groups,
                        const std::uint8_t* codes, const std::uint16_t* scales,
                        const std::uint16_t* minima, float* out) {
  constexpr std::size_t kSome = 16;  // groups whose numbers are widened together
  constexpr int kLast = (1 << kBits) - 1;
  // An index has four bits, so every value is there as often as that takes.
  const Ints16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Ints16 code = lane & kLast;
  const __m512i first_bit = first_bits<kBits>();
  alignas(64) float some_scales[kSome], some_minima[kSome] = {};
  for (std::size_t g = 0; g < groups; g += kSome) {
    const std::size_t count = groups - g < kSome ? groups - g : kSome;
    _mm512_store_ps(some_scales, widen(scales + g, count));
    if (minima != nullptr) _mm512_store_ps(some_minima, widen(minima + g, count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto scale = reinterpret_cast<Floats16>(_mm512_set1_ps(some_scales[i]));
      const auto minimum = reinterpret_cast<Floats16>(_mm512_set1_ps(some_minima[i]));
      Floats16 values;
      level.value(code, scale, minimum, values);
      for (int c = 0; c < group; c += 16, codes += 2 * kBits, out += 16)
        _mm512_storeu_ps(out, _mm512_permutexvar_ps(indices<kBits>(codes, first_bit),
                                                    reinterpret_cast<__m512>(values)));
    }
  }
}

}  // namespace

bool decode_groups_avx512(const GroupFormat& format, std::int64_t from, std::int64_t to,
                          const std::uint8_t* codes, const std::uint16_t* scales,
                          const std::uint16_t* minima, float* out) {
  if (format.bits > 4 || format.axis != schemas::GroupAxis::token || format.group % 16 != 0 ||
      !has_avx512())
    return false;
  const auto first = static_cast<std::size_t>(from);
  const std::size_t groups = static_cast<std::size_t>(to - from) * format.step_scales();
  codes += first * format.row_bytes();
  scales += first * format.step_scales();
  if (minima != nullptr) minima += first * format.step_scales();
  const auto run = [&]<int kBits>(std::integral_constant<int, kBits>) {
    with_level<kBits>(format, [&](const auto& level) {
      decode<kBits>(level, format.group, groups, codes, scales, minima, out);
    });
  };
  switch (format.bits) {
    case 1:
      run(std::integral_constant<int, 1>());
      break;
    case 2:
      run(std::integral_constant<int, 2>());
      break;
    case 3:
      run(std::integral_constant<int, 3>());
      break;
    default:
      run(std::integral_constant<int, 4>());
      break;
  }
  return true;
}

#else

bool decode_groups_avx512(const GroupFormat&, std::int64_t, std::int64_t, const std::uint8_t*,
                          const std::uint16_t*, const std::uint16_t*, float*) {
  return false;
}

#endif

}  // namespace dgap::engine
