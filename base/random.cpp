#include "base/random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

namespace dgap::base {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed, std::string_view purpose) {
  std::uint64_t h = mix(seed + 0x9e3779b97f4a7c15u);
  for (const char c : purpose) h = mix(h ^ static_cast<unsigned char>(c));
  engine_.seed(h);
}

std::uint64_t Random::below(std::uint64_t bound) {
  const std::uint64_t limit = (0 - bound) % bound;  // 2^64 mod bound: the first values are rejected
  for (;;) {
    const std::uint64_t x = engine_();
    if (x >= limit) return x % bound;
  }
}

double Random::uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

double Random::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::vector<std::int32_t> Random::permutation(std::int32_t n) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order));
  return order;
}

}  // namespace dgap::base
