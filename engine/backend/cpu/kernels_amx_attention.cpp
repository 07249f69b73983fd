// Attention for Intel AMX (AMX-BF16 with AVX512-BF16).
//
// It keeps the accuracy of f32 where it matters: queries and keys are split into two bf16
// each (high + low, 16 bits of mantissa), and scores are low*high + high*high + high*low. Weights
// and values are bf16 like all operands of a bf16 model; the weights' sum comes from the same
// products (a channel of ones), so that their rounding cancels where it is systematic.
//
// Times of a tile of 256 keys against 32 queries, head_dim 64, on a Sapphire Rapids core at 2.7
// GHz: 272 tile products take 1.6 us, and the vector work beside them as long, since vector units
// run at half their rate around tile products. Hence the pipeline below, and every saving in
// weigh_pair.
#include <cstdint>

#include "engine/backend/cpu/kernels_amx.hpp"

namespace dgap::engine {
namespace {

constexpr int padded(int n, int step) { return (n + step - 1) / step * step; }
int sum_rows(int head_dim) { return padded(head_dim + 1, 16); }

// A tile's keys: slabs of the high parts, then of the low parts. Its values, transposed: slabs of
// 32 keys, a row per channel and one of ones. Queries: a panel of the high parts, then of the low.
std::size_t key_half(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(padded(head_dim, 32));
}
std::size_t key_bytes(int head_dim) { return 2 * key_half(head_dim); }
std::size_t value_bytes(int head_dim) {
  return sizeof(std::uint16_t) * kAttentionTile * static_cast<std::size_t>(sum_rows(head_dim));
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

/// The same, cut off after 8 bits instead of rounded.
inline __m512i interleave_cut(__m512 a, __m512 b) {
  const __m512i order =
      _mm512_set_epi16(63, 31, 61, 29, 59, 27, 57, 25, 55, 23, 53, 21, 51, 19, 49, 17, 47, 15, 45,
                       13, 43, 11, 41, 9, 39, 7, 37, 5, 35, 3, 33, 1);
  return _mm512_permutex2var_epi16(_mm512_castps_si512(a), order, _mm512_castps_si512(b));
}

void pack_values(int head_dim, int first, int last, const float* rows, void* tile) {
  const int channels = sum_rows(head_dim);
  const std::uint32_t pair_of_ones = 0x3f803f80;
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
    _mm512_store_si512(slab + head_dim * kSlabBytes, _mm512_set1_epi32(pair_of_ones));
  }
}

/// Pairs of neighbouring values of a row, high parts and low parts.
struct Pairs {
  __m512i high, low;
};
inline Pairs split_pairs(const float* p, int n, __m512 scale) {
  const Split a = split(_mm512_mul_ps(load_some(p, n), scale));
  const Split b = split(_mm512_mul_ps(load_some(p + 16, n - 16), scale));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(a.high), b.high, 1),
          _mm512_inserti64x4(_mm512_castsi256_si512(a.low), b.low, 1)};
}

void pack_queries(int head_dim, const float* rows, void* block) {
  const __m512 scale = _mm512_set1_ps(1.44269504f / __builtin_sqrtf(static_cast<float>(head_dim)));
  auto* high = static_cast<char*>(block);
  char* low = high + query_half(head_dim);
  for (int i = 0; i < head_dim; i += 32)
    for (int lane = 0; lane < kPanel; lane += 16) {
      __m512i highs[16], lows[16];  // lanes x pairs, then pairs x lanes
      for (int l = 0; l < 16; ++l) {
        const Pairs p = split_pairs(rows + (lane + l) * head_dim + i, head_dim - i, scale);
        highs[l] = p.high, lows[l] = p.low;
      }
      transpose(highs);
      transpose(lows);
      for (int p = 0; p < 16; ++p) {
        const std::int64_t at = (i / 2 + p) * kPairBytes + lane * 4;
        _mm512_store_si512(high + at, highs[p]);
        _mm512_store_si512(low + at, lows[p]);
      }
    }
}

/// 2^x for x <= 0, exact at 0: relative error below 1.3e-7.
inline __m512 exp2_of_negative(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(1.5345812e-4f);  // minimax on [-.5, .5]
  for (const float c :
       {1.3399931e-3f, 9.6184890e-3f, 5.5503288e-2f, 2.4022647e-1f, 6.9314721e-1f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  return _mm512_scalef_ps(p, n);
}

/// The same to 8e-5, for weights, which are cut to bf16 after; 0 for -infinity, NaN for NaN.
inline __m512 weight(__m512 x) {
  const __m512 r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
  __m512 p = _mm512_set1_ps(7.8024523e-2f);  // minimax on [0, 1]
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.2606716e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9583354e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.9992522e-1f));
  return _mm512_scalef_ps(p, x);  // p 2^floor(x)
}

constexpr int kUnitSlots = 128;

/// Half a tile against a block of queries. Scores are slots x lanes, and become weights in place,
/// as a bf16 panel: half the bytes, so that writing trails reading.
struct Unit {
  const AttentionJob* job = nullptr;
  int first = 0, last = 0;          // slots of the tile, multiples of 32
  int all_first = 0, all_last = 0;  // slots that every lane sees
  float* scores = nullptr;          // [128, 32], of slots first, first + 1, ...
  __m512 top[2], rescale[2];        // maximum of the scores so far; 2^(old maximum - top)
  bool moved = false;               // rescale is not 1 everywhere
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
    unit.all_first = range_.all_first, unit.all_last = range_.all_last;
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

/// Finds the maximum of a unit's scores, some slots at a time.
class Maximum {
 public:
  explicit Maximum(Unit& unit) : unit_(unit) {
    if (unit.first < unit.all_first || unit.last > unit.all_last) mask();
    const float* old = unit.job->state.maximum;
    for (int h = 0; h < 2; ++h) top_[h][0] = top_[h][1] = _mm512_loadu_ps(old + 16 * h);
  }

  void advance() {
    if (slot_ == unit_.last - unit_.first) return;
    constexpr int kSome = 16;
    const float* scores = unit_.scores + slot_ * kPanel;
    for (int j = 0; j < kSome; j += 2)
      for (int i = 0; i < 2; ++i)
        for (int h = 0; h < 2; ++h)
          top_[h][i] =
              _mm512_max_ps(_mm512_load_ps(scores + (j + i) * kPanel + 16 * h), top_[h][i]);
    slot_ += kSome;
  }

  /// Moves the state's maximum; its sums are left to rescale.
  void finish() {
    while (slot_ < unit_.last - unit_.first) advance();
    __mmask16 moved = 0;
    for (int h = 0; h < 2; ++h) {
      float* maximum = unit_.job->state.maximum + 16 * h;
      const __m512 old = _mm512_loadu_ps(maximum);
      unit_.top[h] = _mm512_max_ps(top_[h][0], top_[h][1]);
      unit_.rescale[h] = exp2_of_negative(_mm512_sub_ps(old, unit_.top[h]));
      moved |= _mm512_cmp_ps_mask(unit_.top[h], old, _CMP_NEQ_UQ);
      _mm512_storeu_ps(maximum, unit_.top[h]);
    }
    unit_.moved = moved != 0;
  }

 private:
  /// Scores that a lane does not see become -infinity.
  void mask() const {
    for (int h = 0; h < 2; ++h) {
      const __m512i begin = _mm512_loadu_si512(unit_.job->begin + 16 * h);
      const __m512i end = _mm512_loadu_si512(unit_.job->end + 16 * h);
      for (int j = unit_.first; j < unit_.last; ++j) {
        const __m512i slot = _mm512_set1_epi32(j);
        const __mmask16 seen =
            _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(begin, slot), slot, end);
        float* p = unit_.scores + (j - unit_.first) * kPanel + 16 * h;
        _mm512_store_ps(
            p, _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), seen, _mm512_load_ps(p)));
      }
    }
  }

  Unit& unit_;
  __m512 top_[2][2];  // [lane / 16][slot % 2]
  int slot_ = 0;
};

/// A pipeline over units: while the tile unit computes the scores of one, the vector unit turns the
/// scores of the one before into weights; while it sums values, the vector unit finds maxima.
class Pipeline {
 public:
  explicit Pipeline(int head_dim)
      : head_dim_(head_dim),
        steps_(padded(head_dim, 32) / kDepthStep),
        sum_rows_(sum_rows(head_dim)) {}

  void run(Units units) {
    alignas(64) float scores[2][kUnitSlots * kPanel];
    int turn = 0;
    Unit now, next;
    if (!units.next(now, scores[0])) return;
    score(now, [] {});
    Maximum(now).finish();
    for (bool more = true; more; now = next) {
      turn = 1 - turn;
      more = units.next(next, scores[turn]);
      weigh(now, more ? &next : nullptr);
      if (now.moved) rescale(now);
      sum_values(now, more ? &next : nullptr);
    }
  }

 private:
  /// Scores of the unit; calls `between` after every few tile products.
  template <class Between>
  void score(const Unit& unit, const Between& between) const {
    constexpr std::int64_t kSlab = kAttentionTile * kSlabBytes;
    const auto* keys = static_cast<const char*>(unit.job->keys) + unit.first * kSlabBytes;
    const auto* queries = static_cast<const char*>(unit.job->queries);
    const std::size_t low_keys = key_half(head_dim_), low_queries = query_half(head_dim_);
    stores_happen();
    for (int slot = 0; slot < unit.last - unit.first; slot += 32, keys += 32 * kSlabBytes) {
      zero_c();
      for (int s = 0; s < steps_; ++s) {
        const char* k = keys + s * kSlab;
        const char* q = queries + s * kPanelStep;
        load_a(k + low_keys);
        load_b(q);
        multiply_tiles();
        between();
        load_a(k);
        multiply_tiles();
        between();
        load_b(q + low_queries);
        multiply_tiles();
        between();
      }
      store_c(unit.scores + slot * kPanel, kPanel, true);
    }
  }

  /// Weights of `now`, beside the scores of `next`.
  void weigh(const Unit& now, const Unit* next) const {
    const __m512 top[2] = {now.top[0], now.top[1]};
    const int slots = now.last - now.first;
    int done = 0;
    const auto weigh_until = [&](int until) {
      for (; done < until; done += 2) weigh_pair(now.scores, done, top);
    };
    if (next != nullptr) {
      const int phases = (next->last - next->first) / 32 * steps_ * 3;
      int phase = 0;
      score(*next, [&] { weigh_until(slots * ++phase / phases); });
    }
    weigh_until(slots);
  }

  /// Slots `slot` and `slot` + 1.
  static void weigh_pair(float* scores, int slot, const __m512 (&top)[2]) {
    const float* from = scores + slot * kPanel;
    char* panel = reinterpret_cast<char*>(scores) + slot / 2 * kPairBytes;
    __m512i pair[2];
    for (int h = 0; h < 2; ++h) {
      const __m512 a = _mm512_sub_ps(_mm512_load_ps(from + 16 * h), top[h]);
      const __m512 b = _mm512_sub_ps(_mm512_load_ps(from + kPanel + 16 * h), top[h]);
      pair[h] = interleave_cut(weight(a), weight(b));
    }
    _mm512_store_si512(panel, pair[0]);
    _mm512_store_si512(panel + 64, pair[1]);
  }

  void rescale(const Unit& unit) const {
    for (int i = 0; i < sum_rows_; ++i)
      for (int h = 0; h < 2; ++h) {
        float* p = unit.job->state.sums + i * kPanel + 16 * h;
        _mm512_storeu_ps(p, _mm512_mul_ps(_mm512_loadu_ps(p), unit.rescale[h]));
      }
  }

  /// Sums of values of `now`, beside the maximum of `next`.
  void sum_values(const Unit& now, Unit* next) const {
    if (next == nullptr) return sum_values(now, [] {});
    Maximum maximum(*next);
    sum_values(now, [&] { maximum.advance(); });
    maximum.finish();
  }

  template <class Between>
  void sum_values(const Unit& unit, const Between& between) const {
    const int steps = (unit.last - unit.first) / kDepthStep;
    const auto* weights = reinterpret_cast<const char*>(unit.scores);
    const char* values = static_cast<const char*>(unit.job->values) +
                         std::int64_t{unit.first / 32} * sum_rows_ * kSlabBytes;
    for (int i = 0; i < sum_rows_; i += 32) {
      const bool lower = i + 16 < sum_rows_;
      float* sums = unit.job->state.sums + i * kPanel;
      load_c(sums, kPanel, lower);
      multiply(values + i * kSlabBytes, sum_rows_ * kSlabBytes, weights, steps, lower, between);
      store_c(sums, kPanel, lower);
    }
  }

  int head_dim_, steps_, sum_rows_;
};

void attend_amx(int head_dim, const AttentionJob* jobs, int count) {
  Pipeline(head_dim).run(Units(jobs, count));
}

}  // namespace

extern const AttentionKernel kAmxAttention;
const AttentionKernel kAmxAttention = {"avx512_amx_bf16", false,      key_bytes,   value_bytes,
                                       query_bytes,       sum_rows,   pack_keys,   pack_values,
                                       pack_queries,      attend_amx, begin_tiles, end_tiles};

}  // namespace dgap::engine
