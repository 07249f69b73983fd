// Kernels for Intel AMX (AMX-BF16 with AVX512-BF16); compiled with those instruction sets.
//
// Attention keeps the accuracy of f32 where it matters: queries and keys are split into two bf16
// each (hi + lo, 16 bits of mantissa), and scores are hi*hi + lo*hi + hi*lo. Weights and values are
// rounded to bf16 like all operands of a bf16 model.
#include <immintrin.h>

#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"

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

/// C += A B over `steps` depth steps; 32 rows of A, or 16 without `lower`.
inline void multiply(const char* a, std::int64_t a_step, const char* b, std::int64_t steps,
                     bool lower) {
  stores_happen();
  for (std::int64_t s = 0; s < steps; ++s, a += a_step, b += kPanelStep) {
    _tile_loadd(4, a, kSlabBytes);
    _tile_loadd(6, b, kPairBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 64, kPairBytes);
    _tile_dpbf16ps(1, 4, 7);
    if (!lower) continue;
    _tile_loadd(5, a + 16 * kSlabBytes, kSlabBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

void product_amx(std::int64_t rows, std::int64_t depth, const void* a, std::int64_t a_rows,
                 const void* panel, float* c, std::int64_t ldc, bool add) {
  const auto* first = static_cast<const char*>(a);
  const auto* b = static_cast<const char*>(panel);
  for (std::int64_t r = 0; r < rows; r += 32) {
    const bool lower = r + 16 < rows;
    if (add)
      load_c(c + r * ldc, ldc, lower);
    else
      zero_c();
    multiply(first + r * kSlabBytes, a_rows * kSlabBytes, b, depth / kDepthStep, lower);
    store_c(c + r * ldc, ldc, lower);
  }
}

constexpr int padded(int n, int step) { return (n + step - 1) / step * step; }
int padded_head_dim(int head_dim) { return padded(head_dim, 16); }

// A tile's keys: slabs of the high parts, then of the low parts. Its values, transposed: slabs of
// 32 keys, a row per channel. Queries: a panel of the high parts, then of the low parts.
std::size_t key_half(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(padded(head_dim, 32));
}
std::size_t key_bytes(int head_dim) { return 2 * key_half(head_dim); }
std::size_t value_bytes(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(padded(head_dim, 16));
}
std::size_t query_half(int head_dim) {
  return sizeof(std::uint16_t) * kPanel * static_cast<std::size_t>(padded(head_dim, 32));
}
std::size_t query_bytes(int head_dim) { return 2 * query_half(head_dim); }

struct Split {
  __m256i high, low;
};
/// x = high + low to 16 bits.
inline Split split(__m512 x) {
  const __m256i high = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
  const __m512 widened = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  return {high, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_sub_ps(x, widened)))};
}
/// Up to 16 floats, zeros after.
inline __m512 load_some(const float* p, int n) {
  const auto mask = static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1);
  return _mm512_maskz_loadu_ps(n > 0 ? mask : __mmask16{0}, p);
}

void pack_keys(int head_dim, int first, int last, const float* rows, void* tile) {
  auto* high = static_cast<char*>(tile);
  char* low = high + key_half(head_dim);
  for (int i = 0; i < padded(head_dim, 32); i += 16) {
    const std::int64_t column = (i / 32) * kAttentionTile * kSlabBytes + (i % 32) * 2;
    for (int j = first; j < last; ++j) {
      const Split x = split(load_some(rows + j * head_dim + i, head_dim - i));
      _mm256_store_si256(reinterpret_cast<__m256i*>(high + column + j * kSlabBytes), x.high);
      _mm256_store_si256(reinterpret_cast<__m256i*>(low + column + j * kSlabBytes), x.low);
    }
  }
}

/// Transposes 16 x 16 dwords, in place.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

/// Bf16 values of two rows, interleaved: a[0] b[0] a[1] b[1] ...
inline __m512i interleave(__m512 a, __m512 b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
}

void pack_values(int head_dim, int first, int last, const float* rows, void* tile) {
  const int channels = padded(head_dim, 16);
  for (int j = first; j < last; j += 32) {
    char* slab = static_cast<char*>(tile) + std::int64_t{j / 32} * channels * kSlabBytes;
    for (int i = 0; i < channels; i += 16) {
      __m512i pairs[16];  // key pair p: 16 channels x 2 keys
      for (int p = 0; p < 16; ++p) {
        const float* pair = rows + (j + 2 * p) * head_dim + i;
        pairs[p] =
            interleave(load_some(pair, head_dim - i), load_some(pair + head_dim, head_dim - i));
      }
      transpose(pairs);
      for (int c = 0; c < 16; ++c) _mm512_store_si512(slab + (i + c) * kSlabBytes, pairs[c]);
    }
  }
}

void pack_queries(int head_dim, const float* rows, void* block) {
  const float scale = 1.44269504f / __builtin_sqrtf(static_cast<float>(head_dim));
  auto* high = static_cast<std::uint16_t*>(block);
  auto* low = high + query_half(head_dim) / sizeof(std::uint16_t);
  alignas(32) std::uint16_t parts[2][16];
  for (int lane = 0; lane < kPanel; ++lane)
    for (int i = 0; i < padded(head_dim, 32); i += 16) {
      const __m512 x = load_some(rows + lane * head_dim + i, head_dim - i);
      const Split s = split(_mm512_mul_ps(x, _mm512_set1_ps(scale)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(parts[0]), s.high);
      _mm256_store_si256(reinterpret_cast<__m256i*>(parts[1]), s.low);
      for (int c = 0; c < 16; ++c) {
        const int at = ((i + c) / 2 * kPanel + lane) * 2 + c % 2;
        high[at] = parts[0][c];
        low[at] = parts[1][c];
      }
    }
}

/// Slots that any lane sees, rounded outwards to steps of 32, and those that every lane sees.
struct Range {
  int first, last, all_first, all_last;
};
inline Range visible_slots(const std::int32_t* begin, const std::int32_t* end) {
  const __m512i b0 = _mm512_loadu_si512(begin), b1 = _mm512_loadu_si512(begin + 16);
  const __m512i e0 = _mm512_loadu_si512(end), e1 = _mm512_loadu_si512(end + 16);
  const __m512i none_first = _mm512_set1_epi32(kAttentionTile), none_last = _mm512_setzero_si512();
  const __mmask16 some0 = _mm512_cmplt_epi32_mask(b0, e0), some1 = _mm512_cmplt_epi32_mask(b1, e1);
  const __m512i first = _mm512_min_epi32(_mm512_mask_mov_epi32(none_first, some0, b0),
                                         _mm512_mask_mov_epi32(none_first, some1, b1));
  const __m512i last = _mm512_max_epi32(_mm512_mask_mov_epi32(none_last, some0, e0),
                                        _mm512_mask_mov_epi32(none_last, some1, e1));
  return {_mm512_reduce_min_epi32(first) / 32 * 32, (_mm512_reduce_max_epi32(last) + 31) / 32 * 32,
          _mm512_reduce_max_epi32(_mm512_max_epi32(b0, b1)),
          _mm512_reduce_min_epi32(_mm512_min_epi32(e0, e1))};
}

/// 2^x for x <= 0: relative error below 3e-6 (weights are rounded to bf16 after), NaN for NaN.
inline __m512 exp2_of_negative(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(9.5701019e-3f);  // minimax on [-.5, .5]
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5917860e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4024745e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9312181e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.9999926e-1f));
  return _mm512_scalef_ps(p, n);
}

constexpr float kUnseen = -3.0e38f;  // a finite score, so that r above stays a number

/// Running maxima of scores per lane.
struct Maxima {
  __m512 m[2][2];  // [lane / 16][slot % 2]
};

/// Scores of 32 slots against 32 queries.
inline void score_step(int head_dim, int slot, const char* keys, const char* queries,
                       float* scores) {
  const std::int64_t slab = kAttentionTile * kSlabBytes;
  const std::int64_t steps = padded(head_dim, 32) / kDepthStep;
  const char* high = keys + slot * kSlabBytes;
  const char* low = high + key_half(head_dim);
  zero_c();
  multiply(low, slab, queries, steps, true);
  multiply(high, slab, queries + query_half(head_dim), steps, true);
  multiply(high, slab, queries, steps, true);
  store_c(scores + slot * kPanel, kPanel, true);
}

inline void mask_step(int slot, const std::int32_t* begin, const std::int32_t* end, float* scores) {
  for (int l = 0; l < kPanel; l += 16) {
    const __m512i low = _mm512_loadu_si512(begin + l), high = _mm512_loadu_si512(end + l);
    for (int j = slot; j < slot + 32; ++j) {
      const __m512i at = _mm512_set1_epi32(j);
      const __mmask16 seen =
          _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(low, at), at, high);
      float* p = scores + j * kPanel + l;
      _mm512_store_ps(p, _mm512_mask_mov_ps(_mm512_set1_ps(kUnseen), seen, _mm512_load_ps(p)));
    }
  }
}

inline void max_step(int slot, const float* scores, Maxima& maxima) {
  for (int j = slot; j < slot + 32; j += 2)
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 2; ++i) {
        const __m512 s = _mm512_load_ps(scores + (j + i) * kPanel + 16 * h);
        maxima.m[h][i] = _mm512_max_ps(s, maxima.m[h][i]);
      }
}

void rescale_sums(int channels, const __m512 (&factor)[2], float* sums) {
  for (int i = 0; i < channels; ++i)
    for (int h = 0; h < 2; ++h) {
      float* p = sums + i * kPanel + 16 * h;
      _mm512_storeu_ps(p, _mm512_mul_ps(_mm512_loadu_ps(p), factor[h]));
    }
}

void attend_amx(int head_dim, const void* key_tile, const void* value_tile, const void* query_block,
                const std::int32_t* begin, const std::int32_t* end, const AttentionState& state) {
  alignas(64) float scores[kAttentionTile * kPanel];
  const Range range = visible_slots(begin, end);
  if (range.first >= range.last) return;
  const auto* keys = static_cast<const char*>(key_tile);
  const auto* queries = static_cast<const char*>(query_block);
  const __m512 old[2] = {_mm512_loadu_ps(state.maximum), _mm512_loadu_ps(state.maximum + 16)};
  Maxima maxima = {{{old[0], old[0]}, {old[1], old[1]}}};
  for (int j = range.first; j < range.last; j += 32) {
    score_step(head_dim, j, keys, queries, scores);
    if (j < range.all_first || j + 32 > range.all_last) mask_step(j, begin, end, scores);
    max_step(j, scores, maxima);
  }

  const int channels = padded(head_dim, 16);
  __m512 top[2], rescale[2];
  __mmask16 moved = 0;
  for (int h = 0; h < 2; ++h) {
    top[h] = _mm512_max_ps(maxima.m[h][0], maxima.m[h][1]);
    rescale[h] = exp2_of_negative(_mm512_sub_ps(old[h], top[h]));
    moved |= _mm512_cmp_ps_mask(top[h], old[h], _CMP_NEQ_UQ);
    _mm512_storeu_ps(state.maximum + 16 * h, top[h]);
  }
  if (moved != 0) rescale_sums(channels, rescale, state.sums);

  // Weights replace the scores in place, as a bf16 panel: half the bytes, so writing trails
  // reading.
  __m512 mass[2][2] = {};
  auto* panel = reinterpret_cast<char*>(scores);
  for (int j = range.first; j < range.last; j += 2) {
    __m512i pair[2];
    for (int h = 0; h < 2; ++h) {
      __m512 w[2];
      for (int i = 0; i < 2; ++i) {
        w[i] = exp2_of_negative(
            _mm512_sub_ps(_mm512_load_ps(scores + (j + i) * kPanel + 16 * h), top[h]));
        mass[h][i] = _mm512_add_ps(mass[h][i], w[i]);
      }
      pair[h] = interleave(w[0], w[1]);
    }
    _mm512_store_si512(panel + j / 2 * kPairBytes, pair[0]);
    _mm512_store_si512(panel + j / 2 * kPairBytes + 64, pair[1]);
  }
  for (int h = 0; h < 2; ++h) {
    float* p = state.mass + 16 * h;
    _mm512_storeu_ps(
        p, _mm512_fmadd_ps(_mm512_loadu_ps(p), rescale[h], _mm512_add_ps(mass[h][0], mass[h][1])));
  }

  const char* values =
      static_cast<const char*>(value_tile) + std::int64_t{range.first / 32} * channels * kSlabBytes;
  for (int i = 0; i < channels; i += 32) {
    const bool lower = i + 16 < channels;
    float* sums = state.sums + i * kPanel;
    load_c(sums, kPanel, lower);
    multiply(values + i * kSlabBytes, channels * kSlabBytes, panel + range.first / 2 * kPairBytes,
             (range.last - range.first) / kDepthStep, lower);
    store_c(sums, kPanel, lower);
  }
}

}  // namespace

extern const ProductKernel kAmxProduct;
extern const AttentionKernel kAmxAttention;
const ProductKernel kAmxProduct = {"avx512_amx_bf16", Compute::bf16, product_amx, begin_tiles,
                                   end_tiles};
const AttentionKernel kAmxAttention = {"avx512_amx_bf16", false,           key_bytes,   value_bytes,
                                       query_bytes,       padded_head_dim, pack_keys,   pack_values,
                                       pack_queries,      attend_amx,      begin_tiles, end_tiles};

}  // namespace dgap::engine
