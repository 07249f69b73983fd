#pragma once
#include <cstdint>
#include <cstring>

#include "engine/backend/cpu/kernels.hpp"

/// The kernels in terms of the compiler's vectors of kWidth floats. Included by one source file per
/// instruction set, which defines DGAP_VECTOR_FLOATS and DGAP_BLOCK_ROWS (what fits the register
/// file: rows * 2 + 3 vectors) and is compiled with that instruction set, and with contraction to
/// fused multiply-add. Everything is in an unnamed namespace and calls no inline function of other
/// headers, so that no code for one instruction set is linked into another.
namespace dgap::engine {
namespace {

constexpr int kWidth = DGAP_VECTOR_FLOATS;
constexpr int kVectors = 2;  // of a row in registers
constexpr int kStripe = kVectors * kWidth;
static_assert(kPanel % kStripe == 0);

typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::uint32_t Words __attribute__((vector_size(kWidth * sizeof(float))));
typedef float LooseFloats
    __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
typedef std::int32_t LooseInts
    __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));

inline Floats load(const float* p) { return *reinterpret_cast<const LooseFloats*>(p); }
inline Ints load(const std::int32_t* p) { return *reinterpret_cast<const LooseInts*>(p); }
inline void store(float* p, Floats v) { *reinterpret_cast<LooseFloats*>(p) = v; }
inline Floats all(float x) { return x - Floats{}; }  // a mere broadcast, which 0 + x is not

/// A float operand: element (row, k) of A is a[row * row_stride + k * depth_stride].
struct Rows {
  const float* a;
  std::int64_t row_stride, depth_stride;
  struct Step {
    const float* a;
    std::int64_t row_stride;
    float at(int row) const { return a[row * row_stride]; }
  };
  Step at(std::int64_t k) const { return {a + k * depth_stride, row_stride}; }
  Rows from_row(std::int64_t row) const { return {a + row * row_stride, row_stride, depth_stride}; }
};

/// C[R, kStripe] (+)= A[R, depth] B[depth, kStripe], B and C with their own strides.
template <int R>
inline void float_block(Rows a, std::int64_t depth, const float* panel, float* c, std::int64_t ldc,
                        bool add) {
  Floats sum[R][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = add ? load(c + r * ldc + v * kWidth) : Floats{};
  for (std::int64_t k = 0; k < depth; ++k, panel += kPanel) {
    const auto step = a.at(k);
    Floats b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) b[v] = load(panel + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Floats x = all(step.at(r));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = sum[r][v] + x * b[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + v * kWidth, sum[r][v]);
}

/// C[rows, 32] (+)= A B: blocks of DGAP_BLOCK_ROWS rows, the rest in twos and ones.
inline void float_product(Rows a, std::int64_t rows, std::int64_t depth, const float* panel,
                          float* c, std::int64_t ldc, bool add) {
  std::int64_t r = 0;
  const auto blocks = [&]<int R>() {
    for (; r + R <= rows; r += R)
      for (int j = 0; j < kPanel; j += kStripe)
        float_block<R>(a.from_row(r), depth, panel + j, c + r * ldc + j, ldc, add);
  };
  blocks.template operator()<DGAP_BLOCK_ROWS>();
  blocks.template operator()<4>();
  blocks.template operator()<2>();
  blocks.template operator()<1>();
}

void product_f32(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_stride,
                 const void* panel, float* c, std::int64_t ldc, bool add) {
  float_product({static_cast<const float*>(a), a_stride, 1}, rows, depth,
                static_cast<const float*>(panel), c, ldc, add);
}

/// bf16 operands on processors without bf16 instructions: products of widened values.
template <int R>
inline void pair_block(const std::uint16_t* a, std::int64_t a_rows, std::int64_t depth,
                       const std::int32_t* panel, float* c, std::int64_t ldc, bool add) {
  Floats sum[R][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = add ? load(c + r * ldc + v * kWidth) : Floats{};
  for (std::int64_t k = 0; k < depth; k += 2, panel += kPanel) {
    const std::uint16_t* pair = a + (k / kDepthStep) * a_rows * kDepthStep + k % kDepthStep;
    Floats even[kVectors], odd[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Ints both = load(panel + v * kWidth);
      even[v] = reinterpret_cast<Floats>(both << 16);
      odd[v] = reinterpret_cast<Floats>(both & static_cast<std::int32_t>(0xffff0000u));
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      std::uint32_t bits;
      std::memcpy(&bits, pair + r * kDepthStep, sizeof bits);
      const Ints both = Ints{} + static_cast<std::int32_t>(bits);
      const Floats x = reinterpret_cast<Floats>(both << 16);
      const Floats y = reinterpret_cast<Floats>(both & static_cast<std::int32_t>(0xffff0000u));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = sum[r][v] + x * even[v];
        sum[r][v] = sum[r][v] + y * odd[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + v * kWidth, sum[r][v]);
}

void product_bf16(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_stride,
                  const void* panel, float* c, std::int64_t ldc, bool add) {
  const auto* values = static_cast<const std::uint16_t*>(a);
  const auto* pairs = static_cast<const std::int32_t*>(panel);
  std::int64_t r = 0;
  const auto blocks = [&]<int R>() {
    for (; r + R <= rows; r += R)
      for (int j = 0; j < kPanel; j += kStripe)
        pair_block<R>(values + r * kDepthStep, a_stride, depth, pairs + j, c + r * ldc + j, ldc,
                      add);
  };
  blocks.template operator()<4>();
  blocks.template operator()<1>();
}

/// 2^x for x <= 0: relative error below 1.3e-7; 0 below -126, NaN for NaN.
inline Floats exp2_of_negative(Floats x) {
  const Floats shifted = x + 12582912.0f;  // 1.5 * 2^23: rounds to an integer n
  const Floats r = x - (shifted - 12582912.0f);
  Floats p = all(1.5345812e-4f);  // minimax on [-.5, .5]
  p = p * r + 1.3399931e-3f;
  p = p * r + 9.6184890e-3f;
  p = p * r + 5.5503288e-2f;
  p = p * r + 2.4022647e-1f;
  p = p * r + 6.9314721e-1f;
  p = p * r + 1.0f;
  const Words scale = (reinterpret_cast<Words>(shifted) << 23) + 0x3f800000u;  // wraps where masked
  const Floats y = p * reinterpret_cast<Floats>(scale);
  return x < all(-126.0f) ? Floats{} : y;
}

std::size_t tile_bytes_f32(int head_dim) {
  return sizeof(float) * kAttentionTile * static_cast<std::size_t>(head_dim);
}
std::size_t query_bytes_f32(int head_dim) {
  return sizeof(float) * kPanel * static_cast<std::size_t>(head_dim);
}
int sum_rows_f32(int head_dim) { return head_dim + 1; }

void pack_queries_f32(int head_dim, const float* rows, void* block) {
  auto* out = static_cast<float*>(block);
  const float scale = 1.44269504f / __builtin_sqrtf(static_cast<float>(head_dim));
  for (int i = 0; i < head_dim; ++i)
    for (int lane = 0; lane < kPanel; ++lane)
      out[i * kPanel + lane] = rows[lane * head_dim + i] * scale;
}

/// Scores [256, 32] of slots [first, last) to weights, in place; the state's maximum and mass
/// follow and its sums are rescaled. One stripe of lanes at a time.
inline void softmax_stripe(int head_dim, const SlotRange& range, const std::int32_t* begin,
                           const std::int32_t* end, float* scores, const AttentionState& state) {
  constexpr int kChains = 4;  // independent maxima and sums; slot j goes to chain j % 4
  const Ints low = load(begin), high = load(end);
  const Floats old = load(state.maximum);
  Floats maximum[kChains] = {old, old, old, old};
  for (int j = range.first; j < range.last; j += kChains)
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) {
      float* at = scores + (j + i) * kPanel;
      Floats s = load(at);
      if (j < range.all_first || j + kChains > range.all_last) {
        const Ints slot = Ints{} + (j + i);
        s = ((slot >= low) & (slot < high)) ? s : all(-__builtin_inff());
        store(at, s);
      }
      maximum[i] = s > maximum[i] ? s : maximum[i];
    }
  for (int i = 1; i < kChains; ++i) maximum[0] = maximum[i] > maximum[0] ? maximum[i] : maximum[0];
  const Floats top = maximum[0];
  Floats mass[kChains] = {};
  for (int j = range.first; j < range.last; j += kChains)
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) {
      float* at = scores + (j + i) * kPanel;
      const Floats weight = exp2_of_negative(load(at) - top);
      store(at, weight);
      mass[i] = mass[i] + weight;
    }
  const Floats rescale = exp2_of_negative(old - top);
  store(state.maximum, top);
  float* total = state.sums + head_dim * kPanel;
  store(total, load(total) * rescale + ((mass[0] + mass[1]) + (mass[2] + mass[3])));
  for (int i = 0; i < head_dim; ++i) {
    float* sum = state.sums + i * kPanel;
    store(sum, load(sum) * rescale);
  }
}

void attend_f32(int head_dim, int, const AttentionJob* jobs, int count) {
  alignas(64) float scores[kAttentionTile * kPanel];
  for (const AttentionJob* job = jobs; job != jobs + count; ++job) {
    const SlotRange range = visible_slots(job->begin, job->end);
    const int slots = range.last - range.first;
    if (slots <= 0) continue;
    const float* k = static_cast<const float*>(job->keys) + range.first * head_dim;
    const float* v = static_cast<const float*>(job->values) + range.first * head_dim;
    const AttentionState& state = job->state;
    float* s = scores + range.first * kPanel;
    float_product({k, head_dim, 1}, slots, head_dim, static_cast<const float*>(job->queries), s,
                  kPanel, false);
    for (int j = 0; j < kPanel; j += kWidth)
      softmax_stripe(head_dim, range, job->begin + j, job->end + j, scores + j,
                     {state.maximum + j, state.sums + j});
    float_product({v, 1, head_dim}, head_dim, slots, s, state.sums, kPanel, true);
  }
}

constexpr AttentionKernel portable_attention(const char* name) {
  return {name,    true,    tile_bytes_f32,   tile_bytes_f32, query_bytes_f32, sum_rows_f32,
          nullptr, nullptr, pack_queries_f32, attend_f32,     nullptr,         nullptr};
}
constexpr ProductKernel portable_product(const char* name, Compute compute) {
  return {name, compute, compute == Compute::f32 ? product_f32 : product_bf16, nullptr, nullptr};
}

}  // namespace
}  // namespace dgap::engine
