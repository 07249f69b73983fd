// The linear layers' product for Intel AMX (AMX-BF16).
#include <cstdint>

#include "engine/backend/cpu/kernels_amx.hpp"

namespace dgap::engine {
namespace {

/// Fetches the lines that a block of C will be written to, a few at a time: rows of logits lie far
/// apart, and no hardware sees them coming.
class CLines {
 public:
  CLines(float* c, std::int64_t ldc, std::int64_t rows)
      : next_(c), ldc_(ldc), left_(rows < 32 ? rows : 32) {}
  void fetch(int rows) {
    for (int i = 0; i < rows && left_ > 0; ++i, --left_, next_ += ldc_) {
      _m_prefetchw(next_);
      _m_prefetchw(next_ + 16);
    }
  }

 private:
  float* next_;
  std::int64_t ldc_, left_;
};

void product_amx(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_rows,
                 const void* panel, float* c, std::int64_t ldc, bool add) {
  constexpr std::int64_t kSteps = 18;  // a piece of the panel that stays in the first-level cache
  const std::int64_t slab = a_rows * kSlabBytes, steps = depth / kDepthStep;
  Accumulators sums;
  for (std::int64_t s = 0; s < steps; s += kSteps, add = true) {
    const std::int64_t last = steps - s < kSteps ? steps : s + kSteps;
    if (s > 0) sums.flush();  // what is added to
    for (std::int64_t r = 0; r < rows; r += 32) {
      const Block block = {c + r * ldc, ldc, add, true, r + 16 < rows};
      const char* row = static_cast<const char*>(a) + s * slab + r * kSlabBytes;
      const char* b = static_cast<const char*>(panel) + s * kPanelStep;
      CLines lines(block.c, ldc, rows - r);
      for (std::int64_t i = s; i < last; ++i, row += slab, b += kPanelStep) {
        sums.add(block, i == s, row, b);
        lines.fetch(4);
      }
    }
  }
}

}  // namespace

extern const ProductKernel kAmxProduct;
const ProductKernel kAmxProduct = {"avx512_amx_bf16", Compute::bf16, product_amx, begin_tiles,
                                   end_tiles};

}  // namespace dgap::engine
