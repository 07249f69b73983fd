#include "evaluator/outcomes.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <string>

#include "base/stop.hpp"
#include "evaluator/controls.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "statistics/step_context.hpp"

namespace dgap::evaluator {
namespace {

constexpr std::int64_t kStepsPerTask = 64;

struct Scratch {
  statistics::StepWindow window;
  statistics::StepContext context;
  std::vector<float> phi, delta, edited, resorted, detector;
  runtime::Corrector::Scratch corrector;
  Noise noise;
};

Metrics oracle(Scratch& scratch) {
  const std::span edited(scratch.edited.data(), scratch.window.logits().size());
  scratch.window.oracle(edited);
  return scratch.window.after(edited);
}

void add_controls(Scratch& scratch, const std::string& stream, std::uint64_t seed, Outcome& result) {
  constexpr float kShift = 3.0f;
  const statistics::StepWindow& window = scratch.window;
  const std::span edited(scratch.edited.data(), window.logits().size());
  const std::span resorted(scratch.resorted.data(), edited.size());
  quantized_ranking(window, edited);
  result.quantized_ranking = window.after(edited);
  shift(window, kShift, edited);
  result.shift = window.after(edited);
  result.oracle_raw = window.after(window.reference_logits());
  for (int i = 0; i < kNoiseSeeds; ++i) {
    base::Random random(seed + static_cast<std::uint64_t>(i), stream);
    scratch.noise.draw(window, random, edited, resorted);
    result.noise[i] = window.after(edited);
    result.noise_resorted[i] = window.after(resorted);
  }
}

Outcome outcome(const schemas::PrecisionEntry& entry, const runtime::Detector& detector,
                const runtime::Corrector& corrector, const schemas::TracePart& trace,
                std::size_t precision, std::int64_t step, Scratch& scratch) {
  const statistics::StepWindow& window = scratch.window;
  const auto logits = window.logits();
  Outcome result;
  result.window = window.k();
  result.reference_nll = window.reference_nll();
  result.coverage = window.coverage();
  result.risky = window.risky(entry.epsilon, entry.rho_c);
  result.uncovered = window.uncovered(entry.epsilon, entry.rho_c);
  result.covered = window.coverage() >= entry.rho_c;
  result.quantized = window.before();

  runtime::detector_features(logits, window.served_lse(), window.served_entropy(),
                             scratch.phi.data());
  result.risk = detector.risk(scratch.phi.data(), scratch.detector.data());
  result.escalation = detector.escalation(scratch.phi.data(), scratch.detector.data());
  result.escalated =
      entry.escalate_tau && static_cast<double>(result.escalation) > *entry.escalate_tau;
  corrector.deltas(scratch.context.corrector_step(corrector, trace, precision, step, window,
                                                  scratch.phi.data()),
                   scratch.delta.data(), scratch.corrector);
  const std::span edited(scratch.edited.data(), logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) edited[i] = logits[i] + scratch.delta[i];
  result.always = window.after(edited);
  const bool fires = entry.mode == "always" ||
                     (entry.mode == "threshold" && static_cast<double>(result.risk) > entry.tau);
  result.corrected = fires && !result.escalated;
  result.restored = result.corrected ? result.always : result.quantized;

  result.oracle = oracle(scratch);
  return result;
}

}  // namespace

int common_window(const schemas::TracePart& trace) { return std::clamp(trace.top - 1, 1, 64); }

std::vector<Outcome> outcomes(const schemas::TracePart& trace, std::size_t precision,
                              const schemas::PrecisionEntry& entry, const schemas::Tensors& tensors,
                              std::uint64_t seed) {
  const runtime::Detector detector(entry.detector, tensors);
  const runtime::Corrector corrector(entry.corrector, tensors);
  const std::string& name = trace.precisions[precision].name;
  const int common = common_window(trace);
  const auto width = static_cast<std::size_t>(std::max(entry.window, common));
  std::vector<Outcome> results(static_cast<std::size_t>(trace.steps()));
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, trace.steps(), kStepsPerTask), [&](const auto& range) {
    base::throw_if_stop_requested();
    Scratch scratch;
    scratch.phi.resize(runtime::kDetectorWidth);
    scratch.delta.resize(width);
    scratch.edited.resize(width);
    scratch.resorted.resize(width);
    scratch.detector.resize(detector.scratch_floats());
    scratch.corrector = corrector.scratch(entry.window);
    for (std::int64_t step = range.begin(); step != range.end(); ++step) {
      scratch.window.assign(trace, precision, step, entry.alpha, entry.window, entry.window_mass);
      Outcome& result = results[static_cast<std::size_t>(step)];
      result = outcome(entry, detector, corrector, trace, precision, step, scratch);
      add_controls(scratch, "noise/" + name + "/" + std::to_string(step), seed, result);
      if (entry.window_mass < 1.0) {
        scratch.window.assign(trace, precision, step, entry.alpha, entry.window);
        const Outcome fixed = outcome(entry, detector, corrector, trace, precision, step, scratch);
        result.restored_fixed = fixed.restored;
        result.oracle_fixed = fixed.oracle;
        result.coverage_fixed = fixed.coverage;
      }
      scratch.window.assign(trace, precision, step, entry.alpha, common);
      result.oracle_common = oracle(scratch);
    }
  });
  return results;
}

}  // namespace dgap::evaluator
