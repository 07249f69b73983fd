#pragma once
#include <immintrin.h>

#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"

/// Tile registers of Intel AMX: blocks of C[32, 32] += A[32, depth] B[depth, 32] in bf16. Included
/// by sources compiled with AMX-BF16; in an unnamed namespace, so that no code for it is linked
/// into others.
namespace dgap::engine {
namespace {

constexpr int kSlabBytes = 64;                           // of a row in a slab
constexpr int kPairBytes = 128;                          // of a row of a panel
constexpr int kPanelStep = kDepthStep / 2 * kPairBytes;  // bytes of a panel per depth step

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constinit const TileConfig kTiles;

// The compiler's tile loads do not say that they read memory: stores before them need a fence.
inline void stores_happen() { asm volatile("" ::: "memory"); }

void begin_tiles() { _tile_loadconfig(&kTiles); }
void end_tiles() { _tile_release(); }

// Tiles 0..3 hold C[32, 32] as {0, 1; 2, 3}; 4 and 5 rows of A, 6 and 7 columns of B.

inline void zero_c() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
inline void load_c(const float* c, std::int64_t ldc, bool lower) {
  const std::int64_t stride = ldc * 4;
  stores_happen();
  _tile_loadd(0, c, stride);
  _tile_loadd(1, c + 16, stride);
  if (!lower) return;
  _tile_loadd(2, c + 16 * ldc, stride);
  _tile_loadd(3, c + 16 * ldc + 16, stride);
}
inline void store_c(float* c, std::int64_t ldc, bool lower) {
  const std::int64_t stride = ldc * 4;
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  if (!lower) return;
  _tile_stored(2, c + 16 * ldc, stride);
  _tile_stored(3, c + 16 * ldc + 16, stride);
}

// Rows of A are used once per panel: streamed past the first-level cache, which keeps B.
inline void load_a(const char* a) {
  _tile_stream_loadd(4, a, kSlabBytes);
  _tile_stream_loadd(5, a + 16 * kSlabBytes, kSlabBytes);
}
inline void load_b(const char* b) {
  _tile_loadd(6, b, kPairBytes);
  _tile_loadd(7, b + 64, kPairBytes);
}
inline void multiply_tiles() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

/// C += A B over `steps` depth steps, with a call of `between` after each; 32 rows of A, or 16
/// without `lower`.
template <class Between>
inline void multiply(const char* a, std::int64_t a_step, const char* b, std::int64_t steps,
                     bool lower, const Between& between) {
  stores_happen();
  for (std::int64_t s = 0; s < steps; ++s, a += a_step, b += kPanelStep, between()) {
    load_b(b);
    if (lower) {
      load_a(a);
      multiply_tiles();
    } else {
      _tile_stream_loadd(4, a, kSlabBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
}

}  // namespace
}  // namespace dgap::engine
