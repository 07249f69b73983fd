#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "calibrator/calibrator.hpp"
#include "calibrator/domain_guard.hpp"
#include "calibrator/threshold_curve.hpp"
#include "calibrator/validation_traces.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "schemas/results/trained.hpp"
#include "statistics/step_context.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::int64_t kStepsPerTask = 64;

/// The trained networks of one precision as they will be served, over its window.
class Networks {
 public:
  Networks(const schemas::TrainedNetwork& detector, const schemas::TrainedNetwork& corrector,
           const schemas::WindowResult& window)
      : detector_(detector.info, detector.tensors),
        corrector_(corrector.info, corrector.tensors),
        escalates_(detector.info.escalate),
        alpha_(window.alpha),
        window_(window.window),
        mass_(window.window_mass()) {}

  bool escalates() const { return escalates_; }

  struct Scratch {
    statistics::StepWindow window;
    statistics::StepContext context;
    std::vector<float> phi, edited, detector;
    runtime::Corrector::Scratch corrector;
  };
  Scratch scratch() const {
    Scratch scratch;
    scratch.phi.resize(runtime::kDetectorWidth);
    scratch.edited.resize(window_);
    scratch.detector.resize(detector_.scratch_floats());
    scratch.corrector = corrector_.scratch(window_);
    return scratch;
  }

  StepOutcome outcome(const schemas::TracePart& part, std::size_t precision, std::int64_t step,
                      const schemas::LabelsConfig& labels, Scratch& scratch) const {
    statistics::StepWindow& window = scratch.window;
    window.assign(part, precision, step, alpha_, window_, mass_);
    const std::span<const float> logits = window.logits();
    float* const phi = scratch.phi.data();
    StepOutcome outcome;
    outcome.uncovered = window.uncovered(labels.epsilon, labels.rho_c);
    runtime::detector_features(logits, window.served_lse(), window.served_entropy(), phi);
    outcome.risk = detector_.risk(phi, scratch.detector.data());
    outcome.escalation = detector_.escalation(phi, scratch.detector.data());
    outcome.before = window.before();
    const std::span<float> edited(scratch.edited.data(), logits.size());
    corrector_.deltas(
        scratch.context.corrector_step(corrector_, part, precision, step, window, phi),
        edited.data(), scratch.corrector);
    for (std::size_t i = 0; i < edited.size(); ++i) edited[i] += logits[i];
    // The runtime leaves a row as it is when its correction is not finite.
    const bool finite =
        std::all_of(edited.begin(), edited.end(), [](float z) { return std::isfinite(z); });
    outcome.after = finite ? window.after(edited) : outcome.before;
    return outcome;
  }

 private:
  runtime::Detector detector_;
  runtime::Corrector corrector_;
  bool escalates_;
  double alpha_;
  int window_;
  double mass_;
};

void append_outcomes(const Networks& networks, const schemas::TracePart& part,
                     std::size_t precision, std::span<const std::int64_t> steps,
                     const schemas::LabelsConfig& labels, std::vector<StepOutcome>& outcomes) {
  const std::size_t first = outcomes.size();
  outcomes.resize(first + steps.size());
  const auto count = static_cast<std::int64_t>(steps.size());
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, count, kStepsPerTask), [&](const auto& range) {
        Networks::Scratch scratch = networks.scratch();
        for (std::int64_t i = range.begin(); i != range.end(); ++i) {
          outcomes[first + i] = networks.outcome(part, precision, steps[i], labels, scratch);
        }
      });
  const bool scored = std::none_of(outcomes.begin() + first, outcomes.end(),
                                   [](const StepOutcome& o) { return std::isnan(o.risk); });
  if (!scored) {
    throw base::FailedError(
        "precision " + part.precisions[precision].name +
        ": the detector's score of a validation step is not a number; train again");
  }
}

std::vector<std::filesystem::path> inputs(const schemas::Config& config) {
  const std::filesystem::path run = config.run_directory();
  std::vector<std::filesystem::path> files = {run / "traces" / "index.json", run / "windows.json"};
  for (const schemas::Scheme& scheme : config.precisions) {
    for (const char* folder : {"detector", "corrector"}) {
      for (auto& file : schemas::trained_files(run / folder, scheme.name)) files.push_back(file);
    }
  }
  return files;
}

const schemas::WindowResult& window_of(const schemas::Windows& windows,
                                       const std::string& precision,
                                       const std::filesystem::path& file) {
  const auto found = windows.find(precision);
  if (found == windows.end()) {
    throw base::FailedError(file.string() + ": has no precision '" + precision +
                            "'; run `dgap calibrate` again");
  }
  return found->second;
}

std::string harmed(const schemas::ThresholdResult& result) {
  std::string text;
  for (const auto& [name, d] : result.domains)
    if (d.harmed) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Says where the policy could not have what it asks for.
void warn(const std::string& precision, const schemas::ThresholdResult& result,
          const schemas::ThresholdConfig& config, base::Progress& progress) {
  const std::string tau = "tau = " + base::number(result.tau), of = "precision " + precision + ": ";
  if (result.raised_from) {
    progress.warn(of + "tau is raised from " + base::number(*result.raised_from) + " to " +
                  base::number(result.tau) +
                  ", for it makes these domains worse: " + harmed(result));
  } else if (result.policy == "fixed" && result.tau > config.value) {
    progress.warn(of + "tau is raised from " + base::number(config.value) + " to " +
                  base::number(result.tau) + ", where at most threshold.worse_share = " +
                  base::number(config.worse_share) + " of the steps are made worse");
  }
  const auto chosen = std::find(result.curve.tau.begin(), result.curve.tau.end(), result.tau);
  const double drift = result.curve.drift[chosen - result.curve.tau.begin()];
  if (result.policy == "target" && drift > config.target && !result.raised_from) {
    progress.warn(of + "threshold.target = " + base::number(config.target) +
                  " cannot be reached: the least drift of validation steps is " +
                  base::number(drift));
  }
  if (result.mode != "off") return;
  const std::string why =
      result.policy == "target" && result.drift_before <= config.target
          ? "the drift of validation steps is at most threshold.target without it"
      : result.raised_from ? "where no domain is made worse, nothing is gained"
      : result.tau < 1.0   ? "at " + tau + " it makes the mean KL of validation steps worse"
                           : "no threshold removes more KL from validation steps than it costs";
  progress.warn(of + "the corrector is switched off: " + why);
}

void require_books(const ValidationTraces& traces, const schemas::ThresholdConfig& config) {
  const std::int64_t books = traces.books();
  if (config.worse_share >= 1.0 || books >= statistics::kEnoughBooks) return;
  throw base::UsageError("threshold.worse_share = " + base::number(config.worse_share) +
                         " asks for a guarantee, which needs at least 20 validation books; the "
                         "traces hold " +
                         std::to_string(books) +
                         "; collect more books, or set threshold.worse_share: 1");
}

}  // namespace

void threshold(const schemas::Config& config, base::Progress& progress) {
  const std::filesystem::path run = config.run_directory(), file = run / "threshold.json";
  const schemas::Stage stage(config, "threshold", inputs(config));
  if (stage.done()) return progress.info("threshold: up to date");

  const ValidationTraces traces(config);
  require_books(traces, config.threshold);
  const schemas::Windows windows = schemas::read_windows(run / "windows.json");
  std::vector<Networks> networks;
  for (const std::string& name : traces.precisions()) {
    networks.emplace_back(schemas::read_trained(run / "detector", name),
                          schemas::read_trained(run / "corrector", name),
                          window_of(windows, name, run / "windows.json"));
  }
  progress.begin("threshold", traces.parts(), "parts");
  std::vector<std::vector<StepOutcome>> outcomes(networks.size());
  ClusterBuilder builder;
  traces.for_each_part(true, [&](const schemas::TracePart& part, const auto& steps) {
    builder.add(part, steps);
    for (std::size_t p = 0; p < networks.size(); ++p) {
      append_outcomes(networks[p], part, p, steps, config.labels, outcomes[p]);
    }
    progress.advance(1);
  });
  const statistics::Clusters books = builder.clusters();
  schemas::Thresholds thresholds;
  for (std::size_t p = 0; p < networks.size(); ++p) {
    std::optional<schemas::Escalation> escalation;
    if (networks[p].escalates()) {
      escalation = choose_escalation(outcomes[p], config.threshold.escalate_precision);
      for (StepOutcome& step : outcomes[p]) step.escalated = step.escalation > escalation->tau;
    }
    schemas::ThresholdResult result = choose_threshold(outcomes[p], config.threshold, books);
    result.escalate = escalation;
    guard_domains(builder.sites(), outcomes[p], result);
    warn(traces.precisions()[p], result, config.threshold, progress);
    thresholds.emplace(traces.precisions()[p], std::move(result));
  }
  progress.end();
  schemas::write_thresholds(file, thresholds);
  stage.finish({file});
}

}  // namespace dgap::calibrator
