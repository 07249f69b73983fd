#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace dgap::base {

/// The project's only source of random numbers. The engine is std::mt19937_64, whose output is fixed
/// by the standard; the distributions are our own, since the standard library's differ between
/// implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// A stream of its own for a named purpose ("detector/K1V1"), independent of how many numbers
  /// others have drawn.
  Random(std::uint64_t seed, std::string_view purpose);

  std::uint64_t bits() { return engine_(); }
  /// Uniform in [0, bound), without bias; bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box-Muller, both halves used).
  double normal();
  /// Fisher-Yates.
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  /// A permutation of 0 .. n-1.
  std::vector<std::int32_t> permutation(std::int32_t n);

 private:
  std::mt19937_64 engine_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace dgap::base
