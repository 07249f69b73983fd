#pragma once
// What the decoding benchmarks share.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::bench {

class DropLogits : public engine::LogitsSink {
 public:
  void take(std::int64_t, std::int64_t, const float* logits, const float*) override {
    sum += static_cast<double>(logits[0]);
  }
  double sum = 0;
};

template <class F>
double seconds(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The least of what `f` returns, since other processes may disturb.
template <class F>
double best_of(int times, const F& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, f());
  return best;
}

/// The work does not depend on which tokens they are.
inline std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary) {
  base::Random random(1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return tokens;
}

}  // namespace dgap::bench
