#include "trainer/samples.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/exp.hpp"
#include "base/half.hpp"
#include "base/log.hpp"
#include "base/multiversion.hpp"
#include "base/stop.hpp"
#include "base/text.hpp"
#include "runtime/context_features.hpp"
#include "runtime/features.hpp"
#include "statistics/step_context.hpp"
#include "statistics/window.hpp"

namespace dgap::trainer {
namespace {

using runtime::kCandidateWidth;
using runtime::kContextWidth;
using runtime::kDetectorWidth;

constexpr std::int64_t kStepsPerTask = 64;
constexpr double kLeastTail = 0x1p-24;  // of the probability outside a window

Samples empty_columns(std::int64_t steps, int window, const schemas::CorrectorConfig& corrector) {
  Samples s;
  s.takes_context = corrector.takes("context");
  s.takes_hidden = corrector.takes("hidden");
  s.steps = steps;
  s.window = window;
  s.stride = base::padded_to_lanes(window);
  for (auto* per_step : {&s.lse, &s.tail_logit, &s.negative_entropy}) per_step->resize(steps);
  for (auto* flag : {&s.label, &s.uncovered, &s.has_tail}) flag->resize(steps);
  for (auto* wide : {&s.logits, &s.target, &s.ranked_probability}) wide->resize(steps * s.stride);
  s.size.resize(steps);
  s.ranked.resize(steps * s.stride);
  s.ids.resize(steps * s.stride);
  s.tail_probability.resize(steps);
  s.features.resize(steps * kDetectorWidth);
  if (s.takes_context) s.context.resize(steps * s.stride * kContextWidth);
  return s;
}

/// Window and tail (method.md "extended"): the reference's probabilities against the candidates'
/// logits and the log-sum of what lies outside.
void set_extended_target(const statistics::StepWindow& w, Samples& s, std::int64_t step) {
  const auto probability = w.reference_probability();
  std::copy(probability.begin(), probability.end(), s.target.begin() + step * s.stride);
  const double outside = std::max(1.0 - w.quantized_mass(), kLeastTail);
  s.tail_logit[step] = w.lse() + base::log_f64(outside);
  s.tail_probability[step] = static_cast<float>(std::max(1.0 - w.reference_mass(), kLeastTail));
}

/// softmax(z_fp[S] / T), Eq. 15.
void set_paper_target(const statistics::StepWindow& w, double temperature, Samples& s,
                      std::int64_t step) {
  const auto z = w.reference_logits();
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0.0;
  for (const float x : z) sum += base::exp_f64((x - top) / temperature);
  for (std::size_t i = 0; i < z.size(); ++i) {
    s.target[step * s.stride + i] =
        static_cast<float>(base::exp_f64((z[i] - top) / temperature) / sum);
  }
}

/// Sum of p log p less M log M, M = sum of p: what makes the KL of a target that f32 rounding left
/// not quite normalised 0 at its minimum.
double negative_entropy(const WindowTarget& target) {
  double sum = 0.0, mass = 0.0;
  const auto add = [&](double p) {
    sum += p > 0.0 ? p * base::log_f64(p) : 0.0;
    mass += p;
  };
  for (int i = 0; i < target.k; ++i) add(target.probability[i]);
  if (target.has_tail) add(target.tail_probability);
  return sum - mass * base::log_f64(mass);
}

/// Places by (reference logit descending, quantised rank ascending).
void set_ranking(const statistics::StepWindow& w, Samples& s, std::int64_t step) {
  const auto z = w.reference_logits();
  const auto ranked = s.ranked.begin() + step * s.stride;
  std::iota(ranked, ranked + s.stride, 0);
  std::stable_sort(ranked, ranked + w.k(), [&](auto a, auto b) { return z[a] > z[b]; });
  for (std::int64_t i = 0; i < s.stride; ++i) {
    s.ranked_probability[step * s.stride + i] =
        i < w.k() ? static_cast<float>(w.reference_probability()[ranked[i]]) : kRankingPad;
  }
}

bool all_finite(const Samples& s, std::int64_t step) {
  const auto finite = [](const auto& column, std::int64_t first, std::int64_t count) {
    return std::all_of(column.begin() + first, column.begin() + first + count,
                       [](auto x) { return std::isfinite(x); });
  };
  return finite(s.features, step * kDetectorWidth, kDetectorWidth) && finite(s.lse, step, 1) &&
         finite(s.logits, step * s.stride, s.stride) &&
         finite(s.target, step * s.stride, s.stride) &&
         finite(s.ranked_probability, step * s.stride, s.stride) &&
         finite(s.tail_probability, step, 1) && finite(s.tail_logit, step, 1) &&
         finite(s.negative_entropy, step, 1);
}

void fill_step(const statistics::StepWindow& w, const schemas::Config& config, Samples& s,
               std::int64_t step) {
  const auto logits = s.logits.begin() + step * s.stride;
  std::copy(w.logits().begin(), w.logits().end(), logits);
  std::fill(logits + w.k(), logits + s.stride, w.logits().back());
  std::copy(w.ids().begin(), w.ids().end(), s.ids.begin() + step * s.stride);
  s.size[step] = w.k();
  s.lse[step] = w.served_lse();
  s.label[step] = w.risky(config.labels.epsilon, config.labels.rho_c) ? 1 : 0;
  s.uncovered[step] = w.uncovered(config.labels.epsilon, config.labels.rho_c) ? 1 : 0;
  runtime::detector_features(w.logits(), w.served_lse(), w.served_entropy(),
                             s.features.data() + step * kDetectorWidth);
  const bool extended = config.corrector.objective == "extended";
  s.has_tail[step] = extended && w.has_tail() ? 1 : 0;
  if (extended) {
    set_extended_target(w, s, step);
  } else {
    set_paper_target(w, config.corrector.temperature, s, step);
  }
  s.negative_entropy[step] = negative_entropy(s.target_of(step));
  set_ranking(w, s, step);
}

/// training.weights of every step's source, else of its domain, scaled to mean 1.
std::vector<float> step_weights(const schemas::TracePart& trace, const schemas::Config& config) {
  const auto& weights = config.training.weights;
  std::vector<double> of_unit;
  for (const schemas::TraceUnit& unit : trace.units) {
    auto found = weights.find(unit.source);
    if (found == weights.end()) found = weights.find(unit.domain);
    of_unit.push_back(found == weights.end() ? 1.0 : found->second);
  }
  double sum = 0.0;
  for (const std::int32_t unit : trace.step_unit) sum += of_unit[unit];
  if (!(sum > 0.0) && trace.steps() > 0) {
    throw base::FailedError("training.weights are 0 for every step of the split '" +
                            trace.units.front().split + "': nothing is left to learn from");
  }
  const double scale = static_cast<double>(trace.steps()) / sum;
  std::vector<float> of_step;
  for (const std::int32_t unit : trace.step_unit) {
    of_step.push_back(static_cast<float>(of_unit[unit] * scale));
  }
  return of_step;
}

/// What one task fills steps with.
class StepFiller {
 public:
  StepFiller(const schemas::TracePart& trace, std::size_t precision, const schemas::Config& config,
             double alpha, Samples& samples)
      : trace_(trace),
        precision_(precision),
        config_(config),
        alpha_(alpha),
        samples_(samples),
        context_features_(samples.window) {}

  void fill(std::int64_t step) {
    window_.assign(trace_, precision_, step, alpha_, samples_.window, samples_.mass);
    fill_step(window_, config_, samples_, step);
    if (!samples_.takes_context) return;
    context_features_.compute(context_.at(trace_, step), window_.ids(),
                              samples_.context.data() + step * samples_.stride * kContextWidth,
                              kContextWidth);
  }

 private:
  const schemas::TracePart& trace_;
  std::size_t precision_;
  const schemas::Config& config_;
  double alpha_;
  Samples& samples_;
  statistics::StepWindow window_;
  statistics::StepContext context_;
  runtime::ContextFeatures context_features_;
};

}  // namespace

int Samples::own_inputs() const { return kCandidateWidth + (takes_context ? kContextWidth : 0); }

void Samples::candidate_inputs(std::int64_t step, float* out, std::int64_t row) const {
  runtime::candidate_features(window_of(step), lse[step], out, row);
  if (!takes_context) return;
  const float* from = context.data() + step * stride * kContextWidth;
  for (std::int32_t i = 0; i < size[step]; ++i, from += kContextWidth) {
    std::copy_n(from, kContextWidth, out + i * row + kCandidateWidth);
  }
}

void Samples::hidden_state(std::int64_t step, float* out) const {
  const auto width = static_cast<std::size_t>(hidden_width());
  base::from_half(hidden.data() + step * hidden_width(), out, width);
}

WindowTarget Samples::target_of(std::int64_t step) const {
  return {target.data() + step * stride, size[step],       has_tail[step] != 0,
          tail_probability[step],        tail_logit[step], negative_entropy[step]};
}

std::int64_t Samples::positives() const {
  return std::count(label.begin(), label.end(), std::uint8_t{1});
}

std::string describe_step(const schemas::TracePart& trace, std::int64_t step) {
  const schemas::TraceUnit& unit = trace.units[trace.step_unit[step]];
  return "book " + unit.book + ", context " + std::to_string(unit.context) + ", start " +
         std::to_string(unit.start) + ", decode step " + std::to_string(step - unit.first_step);
}

Samples make_samples(const schemas::TracePart& trace, std::size_t precision,
                     const schemas::Config& config, double alpha, int window, double mass) {
  Samples samples = empty_columns(trace.steps(), window, config.corrector);
  samples.mass = mass;
  samples.vocab_size = trace.header.vocab_size;
  samples.hidden_size = trace.header.hidden_size;
  if (samples.takes_hidden) samples.hidden = trace.columns[precision].hidden;
  if (samples.takes_hidden && samples.hidden.empty() && samples.steps > 0) {
    throw base::FailedError("precision " + trace.precisions[precision].name +
                            ": the traces hold no hidden states, which corrector.inputs asks for; "
                            "set trace.hidden to true and collect them again");
  }
  samples.weight = step_weights(trace, config);
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, samples.steps, kStepsPerTask),
                    [&](const auto& range) {
                      base::throw_if_stop_requested();
                      StepFiller filler(trace, precision, config, alpha, samples);
                      for (std::int64_t step = range.begin(); step != range.end(); ++step) {
                        filler.fill(step);
                      }
                    });
  for (std::int64_t step = 0; step < samples.steps; ++step) {
    if (all_finite(samples, step)) continue;
    throw base::FailedError("precision " + trace.precisions[precision].name + ", " +
                            describe_step(trace, step) +
                            ": a number of its window is not finite; collect this trace again");
  }
  return samples;
}

}  // namespace dgap::trainer
