// Kernels for any processor: four floats at a time (SSE2, NEON), without fused multiply-add on x86.
#define DGAP_VECTOR_FLOATS 4
#define DGAP_BLOCK_ROWS 6
#include "engine/backend/cpu/kernels_portable.hpp"

namespace dgap::engine {

extern const ProductKernel kBaselineProductF32, kBaselineProductBf16;
extern const AttentionKernel kBaselineAttention;
const ProductKernel kBaselineProductF32 = portable_product("generic", Compute::f32);
const ProductKernel kBaselineProductBf16 = portable_product("generic", Compute::bf16);
const AttentionKernel kBaselineAttention = portable_attention("generic");

}  // namespace dgap::engine
