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

// The compiler wants the number of a tile as a literal.
template <int kTile>
inline void load_tile(const float* from, std::int64_t stride) {
  if constexpr (kTile == 0) _tile_loadd(0, from, stride);
  if constexpr (kTile == 1) _tile_loadd(1, from, stride);
  if constexpr (kTile == 2) _tile_loadd(2, from, stride);
  if constexpr (kTile == 3) _tile_loadd(3, from, stride);
}
template <int kTile>
inline void zero_tile() {
  if constexpr (kTile == 0) _tile_zero(0);
  if constexpr (kTile == 1) _tile_zero(1);
  if constexpr (kTile == 2) _tile_zero(2);
  if constexpr (kTile == 3) _tile_zero(3);
}
template <int kTile>
inline void store_tile(float* to, std::int64_t stride) {
  if constexpr (kTile == 0) _tile_stored(0, to, stride);
  if constexpr (kTile == 1) _tile_stored(1, to, stride);
  if constexpr (kTile == 2) _tile_stored(2, to, stride);
  if constexpr (kTile == 3) _tile_stored(3, to, stride);
}

/// A block of up to 32 x 32 values of C.
struct Block {
  float* c;
  std::int64_t ldc;   // floats between rows
  bool add;           // to what C holds
  bool right, lower;  // more than 16 columns; more than 16 rows
};

/// Tiles 0..3 hold a block of C as {0, 1; 2, 3}; 4 and 5 rows of A, 6 and 7 columns of B.
///
/// A tile of C is stored only when the next block needs it: its store waits for the products that
/// it sums, and products behind a waiting store do not begin.
class Accumulators {
 public:
  Accumulators() = default;
  ~Accumulators() { flush(); }
  Accumulators(const Accumulators&) = delete;
  Accumulators& operator=(const Accumulators&) = delete;

  /// A depth step of a block: 32 rows of A, 64 bytes apart, times a panel's step.
  void add(const Block& block, bool first, const char* a, const char* b) {
    stores_happen();
    first ? step<true>(block, a, b) : step<false>(block, a, b);
  }

  /// All blocks are in memory.
  void flush() {
    store<0>();
    store<1>();
    store<2>();
    store<3>();
  }

  /// Products of rows of A with columns that stay in tiles 4..7, for depths of one or two steps:
  /// half the loads, which are as scarce as products.
  template <bool kTwoSteps, bool kRight>
  void keep(const char* b) {
    store<2>();  // which become rows of A
    store<3>();
    stores_happen();
    _tile_loadd(4, b, kPairBytes);
    if (kRight) _tile_loadd(5, b + 64, kPairBytes);
    if (kTwoSteps) _tile_loadd(6, b + kPanelStep, kPairBytes);
    if (kTwoSteps && kRight) _tile_loadd(7, b + kPanelStep + 64, kPairBytes);
  }
  /// Of 16 rows, whose second step lies `a_step` bytes after the first.
  template <bool kTwoSteps, bool kRight>
  void add_kept(const Block& block, bool first, const char* a, std::int64_t a_step) {
    stores_happen();
    _tile_stream_loadd(2, a, kSlabBytes);
    if (kTwoSteps) _tile_stream_loadd(3, a + a_step, kSlabBytes);
    if (first) {
      open<0>(block);
      if (kRight) open<1>(block);
    }
    _tile_dpbf16ps(0, 2, 4);
    if (kRight) _tile_dpbf16ps(1, 2, 5);
    if (!kTwoSteps) return;
    _tile_dpbf16ps(0, 3, 6);
    if (kRight) _tile_dpbf16ps(1, 3, 7);
  }

 private:
  // Loads before products: measured 13 % faster (four loads, four products) whenever something else
  // on the machine slows tile operations down, and as fast as any other order when nothing does.
  template <bool kFirst>
  void step(const Block& block, const char* a, const char* b) {
    _tile_loadd(6, b, kPairBytes);
    if (block.right) _tile_loadd(7, b + 64, kPairBytes);
    _tile_stream_loadd(4, a, kSlabBytes);  // used once per panel: past the cache, which keeps B
    if (block.lower) _tile_stream_loadd(5, a + 16 * kSlabBytes, kSlabBytes);
    if (kFirst) open_all(block);
    _tile_dpbf16ps(0, 4, 6);
    if (block.right) _tile_dpbf16ps(1, 4, 7);
    if (!block.lower) return;
    _tile_dpbf16ps(2, 5, 6);
    if (block.right) _tile_dpbf16ps(3, 5, 7);
  }

  void open_all(const Block& block) {
    open<0>(block);
    block.right ? open<1>(block) : store<1>();
    block.lower ? open<2>(block) : store<2>();
    block.lower && block.right ? open<3>(block) : store<3>();
  }

  template <int kTile>
  void open(const Block& block) {
    store<kTile>();
    float* c = block.c + kTile / 2 * 16 * block.ldc + kTile % 2 * 16;
    if (block.add)
      load_tile<kTile>(c, block.ldc * 4);
    else
      zero_tile<kTile>();
    held_[kTile] = {c, block.ldc * 4};
  }
  template <int kTile>
  void store() {
    if (held_[kTile].c != nullptr) store_tile<kTile>(held_[kTile].c, held_[kTile].stride);
    held_[kTile].c = nullptr;
  }

  struct Held {
    float* c = nullptr;
    std::int64_t stride = 0;
  };
  Held held_[4];
};

}  // namespace
}  // namespace dgap::engine
