#pragma once
#include <cstdint>

#include "runtime/include/dgap/runtime.h"

/// The runtime's sources compiled again for one instruction set each, under other names
/// (level.cpp).
namespace level_scalar {
void restore(std::int64_t vocabulary, int window, const char* precision, const dgap_logits& view,
             dgap_result* results);
}
namespace level_avx2 {
void restore(std::int64_t vocabulary, int window, const char* precision, const dgap_logits& view,
             dgap_result* results);
}
namespace level_avx512 {
void restore(std::int64_t vocabulary, int window, const char* precision, const dgap_logits& view,
             dgap_result* results);
}

namespace dgap::test {

struct Level {
  const char* name;
  bool (*supported)();
  decltype(&level_scalar::restore) restore;
};

inline const Level kLevels[] = {
    {"scalar", [] { return true; }, &level_scalar::restore},
#if defined(__x86_64__)
    {"avx2", [] { return __builtin_cpu_supports("avx2") > 0 && __builtin_cpu_supports("fma") > 0; },
     &level_avx2::restore},
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512bw") > 0 && __builtin_cpu_supports("avx512vl") > 0;
     },
     &level_avx512::restore},
#endif
};

}  // namespace dgap::test
