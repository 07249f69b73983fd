#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"

/// Rows of logits that have broken others, and slow, plain references for what is computed of them.
namespace dgap::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Row {
  std::string name;
  std::vector<float> logits;
};

/// Standard normal times `spread`, rounded to multiples of `step` where it is positive (ties).
inline std::vector<float> random_row(std::int64_t width, double spread, double step,
                                     base::Random& random) {
  std::vector<float> row(static_cast<std::size_t>(width));
  for (float& x : row) {
    double value = random.normal() * spread;
    if (step > 0) value = std::round(value / step) * step;
    x = static_cast<float>(value);
  }
  return row;
}

inline std::vector<Row> hard_rows(std::int64_t width) {
  base::Random random(42);
  const auto n = static_cast<std::size_t>(width);
  std::vector<Row> rows = {{"normal", random_row(width, 3, 0, random)},
                           {"ties", random_row(width, 3, 0.25, random)},
                           {"many ties", random_row(width, 1, 1, random)},
                           {"constant", std::vector<float>(n, 1.5f)},
                           {"zeros of both signs", std::vector<float>(n, 0.0f)},
                           {"wide", random_row(width, 400, 0, random)},
                           {"huge", random_row(width, 5e37, 0, random)},
                           {"denormal", random_row(width, 1e-40, 0, random)}};
  for (std::size_t i = 0; i < n; i += 2) rows[4].logits[i] = -0.0f;
  std::vector<float> masked = random_row(width, 3, 0, random);
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 3 != 0) masked[i] = -kInfinity;
  }
  rows.push_back({"masked", masked});
  std::vector<float> one(n, -kInfinity);
  one[n / 2] = -7.0f;
  rows.push_back({"one left", one});
  std::vector<float> ascending(n), descending(n), combed(n, -1.0f);
  for (std::size_t i = 0; i < n; ++i) {
    ascending[i] = static_cast<float>(i) * 0.01f;
    descending[i] = -ascending[i];
    if (i % 256 == 0) combed[i] = static_cast<float>(i);  // all large ones in one group
  }
  rows.push_back({"ascending", ascending});
  rows.push_back({"descending", descending});
  rows.push_back({"combed", combed});
  return rows;
}

struct Statistics {
  long double lse = 0, entropy = 0;
};

inline Statistics reference_statistics(std::span<const float> row) {
  const long double max = *std::max_element(row.begin(), row.end());
  long double e = 0, ed = 0;
  for (const float x : row) {
    if (x == -kInfinity) continue;
    const long double d = x - max;
    e += std::exp(d);
    ed += std::exp(d) * d;
  }
  return {max + std::log(e), std::log(e) - ed / e};
}

/// Ids in the order (logit descending, id ascending), without -inf.
inline std::vector<std::int32_t> reference_order(std::span<const float> row) {
  std::vector<std::int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids,
                [&](std::int32_t id) { return row[static_cast<std::size_t>(id)] == -kInfinity; });
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  return ids;
}

}  // namespace dgap::test
