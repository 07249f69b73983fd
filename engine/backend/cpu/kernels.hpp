#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/model/decoder.hpp"

/// The inner loops of the CPU backend, compiled once per instruction set and picked at run time.
///
/// One product serves linear layers and attention: C[rows, 32] (+)= A[rows, depth] B[depth, 32],
/// where B is a *panel* of 32 columns. An element of C is one chain of additions over depth, which
/// depends neither on the number of rows nor on their place in a block. So a token gives the same
/// bits whether it is decoded alone or among others, and whatever the thread count.
///
/// Layouts, by compute type:
///   f32   A: row-major. Panel: [depth, 32].
///   bf16  A: slabs [depth / 32][slab_rows][32], slab_rows a multiple of 16. Panel: pairs
///         [depth / 2][32][2]. Depth is padded with zeros to a multiple of 32.
namespace dgap::engine {

inline constexpr int kPanel = 32;           // columns of a panel; queries of an attention block
inline constexpr int kDepthStep = 32;       // depth of bf16 operands is a multiple of it
inline constexpr int kRowStep = 16;         // rows of bf16 operands are a multiple of it
inline constexpr int kAttentionTile = 256;  // keys of an attention tile

template <class Int>
constexpr Int round_up(Int n, Int step) {
  return (n + step - 1) / step * step;
}

/// A linear layer's product. Rows are counted without padding, but for bf16 C needs room for them
/// rounded up to kRowStep.
struct ProductKernel {
  const char* name;  // the instruction set that results depend on, as traces record it
  Compute compute;
  /// f32: `a_stride` floats between rows. bf16: slab_rows, `a` pointing to the first row's values
  /// in the first slab. `ldc` floats between rows of C; `add` adds to what C holds.
  void (*product)(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_stride,
                  const void* panel, float* c, std::int64_t ldc, bool add);
  /// Around a thread's products: sets up and frees tile registers. Null where there are none.
  void (*begin)();
  void (*end)();
};

/// Softmax-weighted sums of one block of 32 queries over one copy of the keys: lane l has weights
/// 2^(score - maximum[l]).
struct AttentionState {
  float* maximum;  // [32], of the scores so far, or a number of that order
  float* sums;     // [sum_rows, 32]: row i < head_dim sums weights * values of channel i, the last
                   // row sums the weights; rows between are padding
};

/// A block of 32 queries against a tile of 256 keys. Slot j of a tile holds one key; lane l sees
/// slots [begin[l], end[l]). Every slot between those bounds, rounded outwards to 32, must hold
/// numbers.
struct AttentionJob {
  const void* keys;
  int key_parts;  // as packed
  const void* values;
  const void* queries;
  const std::int32_t* begin;  // [32]
  const std::int32_t* end;    // [32]
  AttentionState state;
};

struct AttentionKernel {
  const char* name;
  bool natural;  // keys and values of a tile are plain f32 [256, head_dim] and need no packing
  std::size_t (*key_bytes)(int head_dim);    // of one tile
  std::size_t (*value_bytes)(int head_dim);  // of one tile
  std::size_t (*query_bytes)(int head_dim);  // of one block
  int (*sum_rows)(int head_dim);
  /// Rows [last - first, head_dim] into slots [first, last) of a tile, both multiples of 32. A key
  /// is the sum of `parts`, 1 or 2, numbers of 8 bits.
  void (*pack_keys)(int head_dim, int parts, int first, int last, const float* rows, void* tile);
  void (*pack_values)(int head_dim, int first, int last, const float* rows, void* tile);
  /// Queries [32, head_dim], times log2(e) / sqrt(head_dim).
  void (*pack_queries)(int head_dim, const float* rows, void* block);
  /// The jobs in that order; lanes from `lanes` on (16 or 32) hold nothing.
  void (*attend)(int head_dim, int lanes, const AttentionJob* jobs, int count);
  void (*begin)();
  void (*end)();
};

/// Instruction sets in ascending order.
enum class Isa { baseline, avx2, avx512, avx512_bf16, amx_bf16 };

/// What this processor and operating system can run; detected once.
Isa detected_isa();

/// The kernels for `isa`, or the best below it that there are and that this processor can run.
const ProductKernel& product_kernel(Isa isa, Compute compute);
const AttentionKernel& attention_kernel(Isa isa, Compute compute);

/// Slots of a tile that any lane of a block sees, rounded outwards to multiples of 32 (empty when
/// none does), and those that every lane sees.
struct SlotRange {
  int first = kAttentionTile, last = 0;
  int all_first = 0, all_last = kAttentionTile;
};
SlotRange visible_slots(const std::int32_t* begin, const std::int32_t* end);

/// Tile registers for the lifetime of the object.
template <class Kernel>
class KernelScope {
 public:
  explicit KernelScope(const Kernel& kernel) : kernel_(kernel) {
    if (kernel_.begin != nullptr) kernel_.begin();
  }
  ~KernelScope() {
    if (kernel_.end != nullptr) kernel_.end();
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  const Kernel& kernel_;
};

}  // namespace dgap::engine
