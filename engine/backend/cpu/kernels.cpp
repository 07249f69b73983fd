#include "engine/backend/cpu/kernels.hpp"

#include <algorithm>

#include "base/multiversion.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dgap::engine {

extern const ProductKernel kBaselineProductF32, kBaselineProductBf16;
extern const AttentionKernel kBaselineAttention;
#ifdef DGAP_X86_KERNELS
extern const ProductKernel kAvx2ProductF32, kAvx2ProductBf16;
extern const ProductKernel kAvx512ProductF32, kAvx512ProductBf16;
extern const ProductKernel kAvx512Bf16Product, kAmxProduct;
extern const AttentionKernel kAvx2Attention, kAvx512Attention, kAmxAttention;
#endif

namespace {

#ifdef DGAP_X86_KERNELS

/// Linux gives a process tile registers only when it asks for them.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kVbmi = 1u << 1;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0 && (c & kVbmi) != 0 && may_use_tiles();
}

bool has_avx512_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;
}

Isa detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::avx2;
  if (!has_avx512_bf16()) return Isa::avx512;
  return has_amx_bf16() ? Isa::amx_bf16 : Isa::avx512_bf16;
}

#else

Isa detect() { return Isa::baseline; }

#endif

}  // namespace

DGAP_MULTIVERSION SlotRange visible_slots(const std::int32_t* begin, const std::int32_t* end) {
  SlotRange range;
  for (int lane = 0; lane < kPanel; ++lane) {
    const bool some = begin[lane] < end[lane];
    range.first = std::min(range.first, some ? begin[lane] : kAttentionTile);
    range.last = std::max(range.last, some ? end[lane] : 0);
    range.all_first = std::max(range.all_first, begin[lane]);
    range.all_last = std::min(range.all_last, end[lane]);
  }
  range.first = range.first / 32 * 32;
  range.last = round_up(range.last, 32);
  return range;
}

Isa detected_isa() {
  static const Isa isa = detect();
  return isa;
}

const ProductKernel& product_kernel([[maybe_unused]] Isa isa, Compute compute) {
  isa = std::min(isa, detected_isa());
  const bool f32 = compute == Compute::f32;
#ifdef DGAP_X86_KERNELS
  if (!f32 && isa >= Isa::amx_bf16) return kAmxProduct;
  if (!f32 && isa >= Isa::avx512_bf16) return kAvx512Bf16Product;
  if (isa >= Isa::avx512) return f32 ? kAvx512ProductF32 : kAvx512ProductBf16;
  if (isa >= Isa::avx2) return f32 ? kAvx2ProductF32 : kAvx2ProductBf16;
#endif
  return f32 ? kBaselineProductF32 : kBaselineProductBf16;
}

const AttentionKernel& attention_kernel([[maybe_unused]] Isa isa,
                                        [[maybe_unused]] Compute compute) {
  isa = std::min(isa, detected_isa());
#ifdef DGAP_X86_KERNELS
  if (compute == Compute::bf16 && isa >= Isa::amx_bf16) return kAmxAttention;
  if (isa >= Isa::avx512) return kAvx512Attention;
  if (isa >= Isa::avx2) return kAvx2Attention;
#endif
  return kBaselineAttention;
}

}  // namespace dgap::engine
