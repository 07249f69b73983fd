// Kernels for AVX2 with FMA.
#define DGAP_VECTOR_FLOATS 8
#define DGAP_BLOCK_ROWS 6
#include "engine/backend/cpu/kernels_portable.hpp"

namespace dgap::engine {

extern const ProductKernel kAvx2ProductF32, kAvx2ProductBf16;
extern const AttentionKernel kAvx2Attention;
const ProductKernel kAvx2ProductF32 = portable_product("avx2", Compute::f32);
const ProductKernel kAvx2ProductBf16 = portable_product("avx2", Compute::bf16);
const AttentionKernel kAvx2Attention = portable_attention("avx2");

}  // namespace dgap::engine
