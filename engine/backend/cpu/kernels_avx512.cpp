// Kernels for AVX-512.
#define DGAP_VECTOR_FLOATS 16
#define DGAP_BLOCK_ROWS 12
#include "engine/backend/cpu/kernels_portable.hpp"

namespace dgap::engine {

extern const ProductKernel kAvx512ProductF32, kAvx512ProductBf16;
extern const AttentionKernel kAvx512Attention;
const ProductKernel kAvx512ProductF32 = portable_product("avx512", Compute::f32);
const ProductKernel kAvx512ProductBf16 = portable_product("avx512", Compute::bf16);
const AttentionKernel kAvx512Attention = portable_attention("avx512");

}  // namespace dgap::engine
