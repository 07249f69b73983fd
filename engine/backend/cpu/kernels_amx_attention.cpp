// Attention for Intel AMX (AMX-BF16 with AVX512-BF16 and AVX512-VBMI).
//
// Queries, weights and values are bf16 like all operands of a bf16 model. A key is one bf16, or the
// sum of two where one would lose what the cache holds (an FP16 key has 11 bits of mantissa).
//
// Of a tile of 256 keys against 32 queries, head_dim 64, the tile unit alone takes 128 products of
// 16 cycles (192 with keys of two parts), and the vector unit 2,816 operations on two ports. Hence
// the pipeline below, which does both at once, and every saving in weights().
#include <cstdint>

#include "engine/backend/cpu/kernels_amx.hpp"

namespace dgap::engine {
namespace {

constexpr int padded(int n, int step) { return (n + step - 1) / step * step; }
int value_rows(int head_dim) { return padded(head_dim, 16); }
int sum_rows(int head_dim) { return value_rows(head_dim) + 1; }

// A tile's keys: slabs of the first parts, then of the second parts. Its values, transposed: slabs
// of 32 keys, a row per channel. Queries: a panel.
std::size_t key_half(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(padded(head_dim, 32));
}
std::size_t key_bytes(int head_dim) { return 2 * key_half(head_dim); }
std::size_t value_bytes(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(value_rows(head_dim));
}
std::size_t query_bytes(int head_dim) {
  return sizeof(std::uint16_t) * kPanel * static_cast<std::size_t>(padded(head_dim, 32));
}

/// Up to 16 floats, zeros after.
inline __m512 load_some(const float* p, int n) {
  const auto mask = static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << n) - 1);
  return _mm512_maskz_loadu_ps(n > 0 ? mask : __mmask16{0}, p);
}

/// 32 values as bf16, in order.
inline __m512i bf16_of(__m512 first, __m512 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}
/// What sixteen values lack in bf16; `half` holds those.
inline __m512 rest(__m512 x, __m256i half) {
  return _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)));
}

void pack_keys(int head_dim, int parts, int first, int last, const float* rows, void* tile) {
  char* to = static_cast<char*>(tile) + first * kSlabBytes;
  const std::size_t second_part = key_half(head_dim);
  for (int j = 0; j < last - first; ++j, rows += head_dim, to += kSlabBytes)
    for (int i = 0; i < head_dim; i += 32) {
      const __m512 a = load_some(rows + i, head_dim - i);
      const __m512 b = load_some(rows + i + 16, head_dim - i - 16);
      const __m512i high = bf16_of(a, b);
      char* at = to + i / 32 * kAttentionTile * kSlabBytes;
      _mm512_store_si512(at, high);
      if (parts == 2)
        _mm512_store_si512(at + second_part, bf16_of(rest(a, _mm512_castsi512_si256(high)),
                                                     rest(b, _mm512_extracti64x4_epi64(high, 1))));
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
  return _mm512_permutexvar_epi16(order, bf16_of(a, b));
}

void pack_values(int head_dim, int first, int last, const float* rows, void* tile) {
  const int channels = value_rows(head_dim);
  for (int j = first; j < last; j += 32, rows += 32 * head_dim) {
    char* slab = static_cast<char*>(tile) + std::int64_t{j / 32} * channels * kSlabBytes;
    for (int i = 0; i < channels; i += 16) {
      __m512i pairs[16];  // key pair p: 16 channels x 2 keys
      for (int p = 0; p < 16; ++p) {
        const float* pair = rows + 2 * p * head_dim + i;
        pairs[p] =
            interleave(load_some(pair, head_dim - i), load_some(pair + head_dim, head_dim - i));
      }
      transpose(pairs);
      for (int c = 0; c < 16; ++c) _mm512_store_si512(slab + (i + c) * kSlabBytes, pairs[c]);
    }
  }
}

void pack_queries(int head_dim, const float* rows, void* block) {
  const __m512 scale = _mm512_set1_ps(1.44269504f / __builtin_sqrtf(static_cast<float>(head_dim)));
  const auto scaled = [&](const float* p, int n) { return _mm512_mul_ps(load_some(p, n), scale); };
  for (int i = 0; i < head_dim; i += 32)
    for (int lane = 0; lane < kPanel; lane += 16) {
      __m512i pairs[16];  // lanes x pairs, then pairs x lanes
      for (int l = 0; l < 16; ++l) {
        const float* row = rows + (lane + l) * head_dim + i;
        pairs[l] = bf16_of(scaled(row, head_dim - i), scaled(row + 16, head_dim - i - 16));
      }
      transpose(pairs);
      for (int p = 0; p < 16; ++p)
        _mm512_store_si512(static_cast<char*>(block) + (i / 2 + p) * kPairBytes + lane * 4,
                           pairs[p]);
    }
}

// Weights are 2^(score - top) in bf16, top an integer that no score exceeds by more than 1. A score
// is added to a float whose last place is 1/256: that leaves the exponent, biased as bf16 wants it,
// and eight bits of the fraction f of score - top in the low half of the sum. 2^f - 1 is
// f - bend(f); a bit more than bf16 holds is rounded off at the end.
constexpr float kWeightOfZero = 49152.0f;  // 1.5 * 2^15: its low half is 0, which is the weight 0
constexpr float kWeightOfOne = kWeightOfZero + 127.0f;
constexpr float kHalf = 1.0f / 256.0f;  // of the last place of a weight
// Ors together, the sums of scores up to top + 1 have no bit that these have not.
constexpr std::int32_t kInRange = 0x47407fff;
constexpr short kBf16One = 0x3f80;
// A new top lies so far above the scores that it was made for that hardly any exceeds it later.
constexpr float kSlack = 16.0f;

/// 256 (1 + f - 2^f), in the middle of every 64th of f.
struct alignas(64) Bend {
  std::uint8_t at[64];
};
constexpr Bend make_bend() {
  Bend bend = {};
  for (int i = 0; i < 64; ++i) {
    const double f = (4 * i + 1.0) / 256, x = 0.69314718055994531 * f;
    double power = 1, term = 1;
    for (int k = 1; k < 20; ++k) power += term *= x / k;
    bend.at[i] = static_cast<std::uint8_t>(256 * (1 + f - power) + 0.5);
  }
  return bend;
}
constinit const Bend kBend = make_bend();

/// Weights of the scores of two slots, as pairs; shift = kWeightOfOne + kHalf - top. `seen` gathers
/// bits.
inline __m512i weights(__m512 first, __m512 second, __m512 shift, __m512i bend, __m512i& seen) {
  const __m512 least = _mm512_set1_ps(kWeightOfZero);
  const __m512i a = _mm512_castps_si512(_mm512_max_ps(least, _mm512_add_ps(first, shift)));
  const __m512i b = _mm512_castps_si512(_mm512_max_ps(least, _mm512_add_ps(second, shift)));
  seen = _mm512_ternarylogic_epi32(seen, a, b, 0xfe);
  const __m512i pairs = _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
  const __m512i bends =
      _mm512_maskz_permutexvar_epi8(0x5555555555555555, _mm512_srli_epi16(pairs, 2), bend);
  return _mm512_srli_epi16(_mm512_sub_epi16(pairs, bends), 1);
}

constexpr int kUnitSlots = 128;

/// Half a tile against a block of queries. Scores are slots x lanes, and become weights in place,
/// as a bf16 panel: half the bytes, so that writing trails reading.
struct Unit {
  const AttentionJob* job = nullptr;
  int first = 0, last = 0;  // slots of the tile, multiples of 32
  bool masked = false;      // some lane does not see some slot
  float* scores = nullptr;  // [128, 32], of slots first, first + 1, ...
};

/// The units of a list of jobs, in order.
class Units {
 public:
  Units(const AttentionJob* jobs, int count) : job_(jobs), end_(jobs + count) { enter(); }

  bool next(Unit& unit, float* scores) {
    while (job_ != end_ && slot_ >= range_.last) ++job_, enter();
    if (job_ == end_) return false;
    unit.job = job_;
    unit.first = slot_;
    unit.last = (slot_ / kUnitSlots + 1) * kUnitSlots;  // whatever the block sees of the tile
    unit.last = unit.last < range_.last ? unit.last : range_.last;
    unit.masked = unit.first < range_.all_first || unit.last > range_.all_last;
    unit.scores = scores;
    slot_ = unit.last;
    return true;
  }

 private:
  void enter() {
    if (job_ == end_) return;
    range_ = visible_slots(job_->begin, job_->end);
    slot_ = range_.first;
  }
  const AttentionJob* job_;
  const AttentionJob* end_;
  SlotRange range_;
  int slot_ = 0;
};

/// A pipeline over units: while the vector unit turns the scores of one into weights, the tile unit
/// sums the values of the one before and computes the scores of the one after, which take the place
/// of those weights. kHalves: 1 where only the first 16 lanes hold queries.
template <int kHalves>
class Pipeline {
 public:
  explicit Pipeline(int head_dim)
      : head_dim_(head_dim), steps_(padded(head_dim, 32) / kDepthStep), rows_(value_rows(head_dim)) {}

  void run(Units units) {
    alignas(64) float scores[2][kUnitSlots * kPanel];
    Unit before, now, after;
    if (!units.next(now, scores[0])) return;
    score(now, [] {});
    tiles_.flush();
    for (int turn = 1; now.job != nullptr; turn = 1 - turn) {
      if (!units.next(after, scores[turn])) after.job = nullptr;
      weigh(now, before, after);
      before = now, now = after;
    }
    sum_values(before, [] {});
    tiles_.flush();
  }

 private:
  /// Scores of the unit; calls `between` after every few tile products.
  template <class Between>
  void score(const Unit& unit, const Between& between) {
    if (steps_ == 1) return score_kept<false>(unit, between);
    if (steps_ == 2) return score_kept<true>(unit, between);
    constexpr std::int64_t kSlab = kAttentionTile * kSlabBytes;
    const auto* keys = static_cast<const char*>(unit.job->keys) + unit.first * kSlabBytes;
    const auto* queries = static_cast<const char*>(unit.job->queries);
    const std::size_t second = key_half(head_dim_);
    for (int slot = 0; slot < unit.last - unit.first; slot += 32, keys += 32 * kSlabBytes) {
      const Block block = {unit.scores + slot * kPanel, kPanel, false, kHalves == 2, true};
      for (int s = 0; s < steps_; ++s) {
        tiles_.add(block, s == 0, keys + s * kSlab, queries + s * kPanelStep);
        between();
      }
      if (unit.job->key_parts == 1) continue;
      for (int s = 0; s < steps_; ++s) {
        tiles_.add(block, false, keys + second + s * kSlab, queries + s * kPanelStep);
        between();
      }
    }
  }

  /// The same for head_dim up to 64.
  template <bool kTwoSteps, class Between>
  void score_kept(const Unit& unit, const Between& between) {
    constexpr std::int64_t kSlab = kAttentionTile * kSlabBytes;
    constexpr bool kRight = kHalves == 2;
    const auto* keys = static_cast<const char*>(unit.job->keys) + unit.first * kSlabBytes;
    tiles_.template keep<kTwoSteps, kRight>(static_cast<const char*>(unit.job->queries));
    for (int slot = 0; slot < unit.last - unit.first; slot += 16, keys += 16 * kSlabBytes) {
      const Block block = {unit.scores + slot * kPanel, kPanel, false, kRight, false};
      tiles_.template add_kept<kTwoSteps, kRight>(block, true, keys, kSlab);
      between();
      if (unit.job->key_parts == 1) continue;
      tiles_.template add_kept<kTwoSteps, kRight>(block, false, keys + key_half(head_dim_), kSlab);
      between();
    }
  }

  /// Sums of values of the unit, likewise.
  template <class Between>
  void sum_values(const Unit& unit, const Between& between) {
    const int steps = (unit.last - unit.first) / kDepthStep;
    const char* values = static_cast<const char*>(unit.job->values) +
                         std::int64_t{unit.first / 32} * rows_ * kSlabBytes;
    const auto* weights = reinterpret_cast<const char*>(unit.scores);
    for (int i = 0; i < rows_; i += 32) {
      const Block block = {unit.job->state.sums + i * kPanel, kPanel, true, kHalves == 2,
                           i + 16 < rows_};
      for (int s = 0; s < steps; ++s) {
        tiles_.add(block, s == 0, values + (s * rows_ + i) * kSlabBytes, weights + s * kPanelStep);
        between();
      }
    }
  }

  /// Weights of `now`, beside the values of `before` and the scores of `after`.
  void weigh(const Unit& now, const Unit& before, const Unit& after) {
    Weigher weigher(now, rows_);
    const auto between = [&] { weigher.advance(); };
    if (before.job != nullptr) sum_values(before, between);
    if (after.job != nullptr) score(after, between);
    if (!weigher.finish()) weigh_anew(now);
  }

  /// Turns a unit's scores into weights, some slots at a time, and adds those up.
  class Weigher {
   public:
    Weigher(const Unit& unit, int mass_row)
        : unit_(unit),
          total_(unit.job->state.sums + mass_row * kPanel),
          left_(unit.last - unit.first) {
      for (int h = 0; h < kHalves; ++h) {
        shift_[h] = _mm512_sub_ps(_mm512_set1_ps(kWeightOfOne + kHalf),
                                  _mm512_loadu_ps(unit.job->state.maximum + 16 * h));
        seen_[h] = _mm512_setzero_si512();
        mass_[h] = _mm512_setzero_ps();
      }
    }

    void advance() {
      if (left_ == 0) return;
      constexpr int kSome = 8;
      const int slot = unit_.last - unit_.first - left_;
      if (unit_.masked) mask(unit_, slot, slot + kSome);
      const float* scores = unit_.scores + slot * kPanel;
      char* to = reinterpret_cast<char*>(unit_.scores) + slot / 2 * kPairBytes;
      const __m512i bend = _mm512_load_si512(&kBend), ones = _mm512_set1_epi16(kBf16One);
#pragma GCC unroll 4
      for (int j = 0; j < kSome; j += 2, scores += 2 * kPanel, to += kPairBytes) {
        __m512i pairs[kHalves];
        for (int h = 0; h < kHalves; ++h)
          pairs[h] = weights(_mm512_load_ps(scores + 16 * h),
                             _mm512_load_ps(scores + kPanel + 16 * h), shift_[h], bend, seen_[h]);
        for (int h = 0; h < kHalves; ++h) {
          _mm512_store_si512(to + 64 * h, pairs[h]);
          mass_[h] = _mm512_dpbf16_ps(mass_[h], reinterpret_cast<__m512bh>(pairs[h]),
                                      reinterpret_cast<__m512bh>(ones));
        }
      }
      left_ -= kSome;
    }

    /// False where a score is above the top or no number: then the weights are void.
    bool finish() {
      while (left_ > 0) advance();
      __mmask16 out = 0;
      for (const __m512i& bits : seen_)
        out |= _mm512_test_epi32_mask(bits, _mm512_set1_epi32(~kInRange));
      if (out != 0) return false;
      for (int h = 0; h < kHalves; ++h) {
        float* p = total_ + 16 * h;
        _mm512_storeu_ps(p, _mm512_add_ps(_mm512_loadu_ps(p), mass_[h]));
      }
      return true;
    }

   private:
    const Unit& unit_;
    float* total_;  // the state's sums of weights
    int left_;      // slots
    __m512 shift_[kHalves], mass_[kHalves];
    __m512i seen_[kHalves];
  };

  /// Scores that a lane does not see become -infinity.
  static void mask(const Unit& unit, int from, int until) {
    for (int h = 0; h < kHalves; ++h) {
      const __m512i begin = _mm512_loadu_si512(unit.job->begin + 16 * h);
      const __m512i end = _mm512_loadu_si512(unit.job->end + 16 * h);
      for (int j = from; j < until; ++j) {
        const __m512i slot = _mm512_set1_epi32(unit.first + j);
        const __mmask16 seen =
            _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(begin, slot), slot, end);
        float* p = unit.scores + j * kPanel + 16 * h;
        _mm512_store_ps(
            p, _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), seen, _mm512_load_ps(p)));
      }
    }
  }

  /// The same with a top that suits the unit: rare, so nothing is overlapped.
  void weigh_anew(const Unit& unit) {
    tiles_.flush();
    score(unit, [] {});
    tiles_.flush();
    if (unit.masked) mask(unit, 0, unit.last - unit.first);
    for (int h = 0; h < kHalves; ++h) raise_top(unit, 16 * h);
    Weigher(unit, rows_).finish();
  }

  /// Gives lanes with a score above their top a new one, and scales their sums to it; lanes with a
  /// score that is no number get sums that are none.
  void raise_top(const Unit& unit, int lane) const {
    const __m512 infinity = _mm512_set1_ps(__builtin_inff());
    float* top = unit.job->state.maximum + lane;
    const __m512 old = _mm512_loadu_ps(top);
    __m512 highest = _mm512_sub_ps(_mm512_setzero_ps(), infinity);
    __mmask16 bad = 0;
    for (int j = 0; j < unit.last - unit.first; ++j) {
      const __m512 score = _mm512_load_ps(unit.scores + j * kPanel + lane);
      highest = _mm512_max_ps(score, highest);
      bad |= _mm512_cmp_ps_mask(score, infinity, _CMP_NLT_UQ);
    }
    const __mmask16 above = _mm512_cmp_ps_mask(highest, old, _CMP_GT_OQ);
    const __m512 raised =
        _mm512_add_ps(_mm512_roundscale_ps(highest, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC),
                      _mm512_set1_ps(kSlack));
    const __m512 now = _mm512_mask_mov_ps(old, above & ~bad, raised);
    __m512 factor = _mm512_scalef_ps(_mm512_set1_ps(1.0f), _mm512_sub_ps(old, now));
    factor = _mm512_mask_mov_ps(factor, bad, _mm512_set1_ps(__builtin_nanf("")));
    _mm512_storeu_ps(top, now);
    for (int i = 0; i <= rows_; ++i) {
      float* p = unit.job->state.sums + i * kPanel + lane;
      _mm512_storeu_ps(p, _mm512_mul_ps(_mm512_loadu_ps(p), factor));
    }
  }

  int head_dim_, steps_, rows_;
  Accumulators tiles_;
};

void attend_amx(int head_dim, int lanes, const AttentionJob* jobs, int count) {
  if (lanes <= 16)
    Pipeline<1>(head_dim).run(Units(jobs, count));
  else
    Pipeline<2>(head_dim).run(Units(jobs, count));
}

}  // namespace

extern const AttentionKernel kAmxAttention;
const AttentionKernel kAmxAttention = {"avx512_amx_bf16", false,      key_bytes,   value_bytes,
                                       query_bytes,       sum_rows,   pack_keys,   pack_values,
                                       pack_queries,      attend_amx, begin_tiles, end_tiles};

}  // namespace dgap::engine
