// The product of bf16 operands for AVX512-BF16.
#include <immintrin.h>

#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"

namespace dgap::engine {
namespace {

inline __m512bh pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

template <int R>
inline void block(const std::int32_t* a, std::int64_t a_rows, std::int64_t depth,
                  const std::int32_t* panel, float* c, std::int64_t ldc, bool add) {
  __m512 sum[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v)
      sum[r][v] = add ? _mm512_loadu_ps(c + r * ldc + 16 * v) : _mm512_setzero_ps();
  constexpr int kPairs = kDepthStep / 2;
  for (std::int64_t slab = 0; slab < depth / kDepthStep; ++slab, a += a_rows * kPairs)
    for (int k = 0; k < kPairs; ++k, panel += kPanel) {
      const __m512bh b[2] = {pairs(_mm512_loadu_si512(panel)),
                             pairs(_mm512_loadu_si512(panel + 16))};
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512bh x = pairs(_mm512_set1_epi32(a[r * kPairs + k]));
        for (int v = 0; v < 2; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, b[v]);
      }
    }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) _mm512_storeu_ps(c + r * ldc + 16 * v, sum[r][v]);
}

void product(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_rows,
             const void* panel, float* c, std::int64_t ldc, bool add) {
  const auto* values = static_cast<const std::int32_t*>(a);
  const auto* b = static_cast<const std::int32_t*>(panel);
  std::int64_t r = 0;
  const auto blocks = [&]<int R>() {
    for (; r + R <= rows; r += R)
      block<R>(values + r * (kDepthStep / 2), a_rows, depth, b, c + r * ldc, ldc, add);
  };
  blocks.template operator()<12>();
  blocks.template operator()<4>();
  blocks.template operator()<1>();
}

}  // namespace

extern const ProductKernel kAvx512Bf16Product;
const ProductKernel kAvx512Bf16Product = {"avx512_bf16", Compute::bf16, product, nullptr, nullptr};

}  // namespace dgap::engine
