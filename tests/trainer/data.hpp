#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "runtime/features.hpp"
#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"
#include "statistics/columns.hpp"
#include "trainer/samples.hpp"

/// Small full traces whose quantised decode is a known distortion of the reference, so that a
/// corrector has something to learn.
namespace dgap::testing {

struct TraceOptions {
  std::int64_t vocab = 120;
  int top = 41;
  int units = 4, steps_per_unit = 16;
  std::string split = "train";
  std::uint64_t seed = 1;
  double flatten = 0.6;  // z_q = flatten * z_fp + noise: the repair is a sharpening
  double noise = 0.1;
  std::vector<std::string> precisions = {"A"};
  /// > 0: text of a small alphabet, and the reference adds this to the logit of the token that
  /// followed the last earlier place of the current one, which the quantised decode forgot.
  double copying = 0.0;
  double token_bias = 0.0;   // the quantised decode takes it from the logit of every third token
  double hidden_bias = 0.0;  // the same, times the first number of the hidden state
};

/// What followed the last earlier place of the current token; -1: it is new.
inline std::int32_t remembered_token(const schemas::TracePart& trace, std::int64_t step) {
  const auto text = trace.context_of(step);
  for (std::size_t i = text.size() - 1; i-- > 0;) {
    if (text[i] == text.back()) return text[i + 1];
  }
  return -1;
}

/// The spread of the logits varies from step to step, and with it the risk.
inline schemas::TracePart make_trace(const TraceOptions& options) {
  base::Random random(options.seed, "trace/" + options.split);
  schemas::TracePart part;
  part.header = {"dgap test", "none", "run", "m", "t", options.vocab, 8, "f32", "any", "blocked"};
  part.config_yaml = "version: 1\n";
  part.top = options.top;
  for (const std::string& name : options.precisions) {
    part.precisions.push_back({name, R"({"name":")" + name + R"("})", 1.25, 1.25, 2.0, 2.0});
  }
  part.columns.resize(options.precisions.size());
  for (int u = 0; u < options.units; ++u) {
    schemas::TraceUnit unit;
    unit.book = options.split + std::to_string(u), unit.source = "s", unit.domain = "d";
    unit.split = options.split, unit.context = 3, unit.start = 10 * u;
    unit.steps = options.steps_per_unit;
    unit.first_step = part.steps();
    unit.first_token = static_cast<std::int64_t>(part.tokens.size());
    for (int i = 0; i < unit.context + unit.steps; ++i) {
      const auto letters = options.copying > 0.0 ? 12 : options.vocab;
      part.tokens.push_back(static_cast<std::int32_t>(random.below(letters)));
    }
    for (int t = 0; t < unit.steps; ++t) {
      part.step_unit.push_back(u);
      part.step_position.push_back(unit.context - 1 + t);
      part.step_target.push_back(part.tokens[unit.first_token + unit.context + t]);
    }
    part.units.push_back(unit);
  }
  for (std::int64_t step = 0; step < part.steps(); ++step) {
    const double spread = 0.5 + 3.5 * random.uniform();
    float hidden[8] = {};
    for (float& h : hidden) h = base::round_to_half(static_cast<float>(random.normal()));
    for (schemas::PrecisionColumns& columns : part.columns) {
      for (const float h : hidden) columns.hidden.push_back(base::to_half(h));
    }
    const std::int32_t remembered = options.copying > 0.0 ? remembered_token(part, step) : -1;
    for (std::int64_t i = 0; i < options.vocab; ++i) {
      const double z = spread * random.normal();
      part.reference.logits.push_back(
          static_cast<float>(z + (i == remembered ? options.copying : 0.0)));
      for (schemas::PrecisionColumns& columns : part.columns) {
        const double lost = options.token_bias + options.hidden_bias * hidden[0];
        const double distorted =
            options.flatten * z + options.noise * random.normal() - (i % 3 == 0 ? lost : 0.0);
        columns.logits.push_back(static_cast<float>(distorted));
      }
    }
  }
  statistics::recompute_columns(part, 0.95);
  return part;
}

/// Both traces as one, the units of the second in another domain.
inline schemas::TracePart joined(schemas::TracePart first, const schemas::TracePart& second,
                                 const std::string& domain) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (schemas::TraceUnit unit : second.units) {
    unit.domain = domain;
    unit.first_step += first.steps();
    unit.first_token += static_cast<std::int64_t>(first.tokens.size());
    first.units.push_back(unit);
  }
  const auto units = static_cast<std::int32_t>(first.units.size() - second.units.size());
  for (const std::int32_t unit : second.step_unit) first.step_unit.push_back(unit + units);
  append(first.tokens, second.tokens);
  append(first.step_position, second.step_position);
  append(first.step_target, second.step_target);
  append(first.reference.logits, second.reference.logits);
  for (std::size_t p = 0; p < first.columns.size(); ++p) {
    append(first.columns[p].logits, second.columns[p].logits);
    append(first.columns[p].hidden, second.columns[p].hidden);
  }
  statistics::recompute_columns(first, 0.95);
  return first;
}

inline schemas::Config make_config(const std::vector<std::string>& precisions = {"A"}) {
  schemas::Config config;
  config.run.name = "run";
  config.labels.epsilon = 0.05;
  config.labels.rho_c = 0.3;
  config.detector.hidden = {16, 8};
  config.corrector.hidden = {16, 8};
  config.training.batch = 64;
  for (const std::string& name : precisions) {
    schemas::Scheme scheme = schemas::preset("K4V4");
    scheme.name = name;
    config.precisions.push_back(scheme);
  }
  return config;
}

/// Parameters drawn uniformly: no layer is zero, unlike the initial ones.
template <class Real>
std::vector<Real> random_parameters(std::int64_t count, double bound, std::uint64_t seed) {
  base::Random random(seed);
  std::vector<Real> parameters(static_cast<std::size_t>(count));
  for (Real& p : parameters) p = static_cast<Real>(bound * (2.0 * random.uniform() - 1.0));
  return parameters;
}

/// Largest |gradient - central difference| over the largest |gradient|.
inline double gradient_error(const std::vector<double>& gradient, std::vector<double> at,
                             const std::function<double(const std::vector<double>&)>& f,
                             double h = 1e-5) {
  double worst = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double x = at[i];
    at[i] = x + h;
    const double above = f(at);
    at[i] = x - h;
    const double below = f(at);
    at[i] = x;
    worst = std::max(worst, std::abs(gradient[i] - (above - below) / (2.0 * h)));
    largest = std::max(largest, std::abs(gradient[i]));
  }
  return worst / largest;
}

}  // namespace dgap::testing
