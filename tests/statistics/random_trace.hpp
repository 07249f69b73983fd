#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/columns.hpp"

/// Full traces of random logits, small enough for direct computation over the whole vocabulary.
namespace dgap::testing {

struct RandomTrace {
  std::int64_t vocab = 97;
  int steps = 40, top = 33, units = 4;
  double alpha_max = 0.95;
  double spread = 2.0;  // standard deviation of the reference's logits
  double noise = 0.7;   // of the quantised ones around them
  float grid = 0.0f;    // > 0: logits are multiples of it, so that many are equal
  double masked = 0.0;  // share of tokens of logit -inf, the same in both decodes
  std::uint64_t seed = 1;
  std::vector<std::string> precisions = {"A", "B"};
};

inline float on_grid(double x, float grid) {
  const auto value = static_cast<float>(x);
  return grid > 0.0f ? std::round(value / grid) * grid : value;
}

inline schemas::TracePart make_trace(const RandomTrace& options) {
  base::Random random(options.seed, "trace");
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  schemas::TracePart part;
  part.header = {"dgap test", "none", "run", "m", "t", options.vocab, 8, "f32", "any", "blocked"};
  part.config_yaml = "version: 1\n";
  part.top = static_cast<std::int32_t>(std::min<std::int64_t>(options.top, options.vocab));
  for (const std::string& name : options.precisions) {
    part.precisions.push_back({name, R"({"name":")" + name + R"("})", 1.25, 1.25, 2.0, 2.0});
  }
  part.columns.resize(options.precisions.size());
  const auto token = [&] { return static_cast<std::int32_t>(random.below(options.vocab)); };
  for (int u = 0; u < options.units; ++u) {
    schemas::TraceUnit unit;
    unit.book = "book" + std::to_string(u / 2), unit.source = "s", unit.domain = "d";
    unit.split = "validation", unit.context = 3, unit.start = 10 * u;
    unit.steps = options.steps / options.units;
    unit.first_step = part.steps();
    unit.first_token = static_cast<std::int64_t>(part.tokens.size());
    for (int i = 0; i < unit.context + unit.steps; ++i) part.tokens.push_back(token());
    for (int t = 0; t < unit.steps; ++t) {
      part.step_unit.push_back(u);
      part.step_position.push_back(unit.context - 1 + t);
      part.step_target.push_back(part.tokens[unit.first_token + unit.context + t]);
    }
    part.units.push_back(unit);
  }
  for (std::int64_t i = 0; i < part.steps() * options.vocab; ++i) {
    const bool masked = random.uniform() < options.masked && i % options.vocab != 0;
    const double z = options.spread * random.normal();
    part.reference.logits.push_back(masked ? minus_infinity : on_grid(z, options.grid));
    for (schemas::PrecisionColumns& columns : part.columns) {
      const double noisy = z + options.noise * random.normal();
      columns.logits.push_back(masked ? minus_infinity : on_grid(noisy, options.grid));
    }
  }
  statistics::recompute_columns(part, options.alpha_max);
  return part;
}

inline std::span<const float> row(const std::vector<float>& logits, std::int64_t step,
                                  std::int64_t vocab) {
  return std::span(logits).subspan(step * vocab, vocab);
}

}  // namespace dgap::testing
