#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "base/stop.hpp"
#include "runtime/features.hpp"
#include "runtime/models.hpp"
#include "statistics/step_context.hpp"
#include "statistics/window.hpp"
#include "trainer/corrector_trials.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {
namespace {

using runtime::kDetectorWidth;

constexpr std::int64_t kStepsPerTask = 64;

/// KL(reference || .) of every validation step, before and with every step corrected, by the
/// runtime's corrector and the exact metrics of statistics.
struct ValidationKl {
  std::vector<double> before, after;
};
ValidationKl validation_kl(const PrecisionData& data, const schemas::TrainedNetwork& trained) {
  const runtime::Corrector corrector(trained.info, trained.tensors);
  const Samples& samples = data.validation;
  ValidationKl kl;
  kl.before.resize(static_cast<std::size_t>(samples.steps));
  kl.after.resize(kl.before.size());
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, samples.steps, kStepsPerTask), [&](const auto& range) {
        base::throw_if_stop_requested();
        statistics::StepWindow window;
        statistics::StepContext context;
        runtime::Corrector::Scratch scratch = corrector.scratch(samples.window);
        std::vector<float> edited(static_cast<std::size_t>(samples.window));
        for (std::int64_t step = range.begin(); step != range.end(); ++step) {
          window.assign(data.validation_trace, data.precision, step, data.alpha, samples.window,
                        samples.mass);
          const auto z = window.logits();
          const float* const phi = samples.features.data() + step * kDetectorWidth;
          corrector.deltas(context.corrector_step(corrector, data.validation_trace, data.precision,
                                                  step, window, phi),
                           edited.data(), scratch);
          for (std::size_t i = 0; i < z.size(); ++i) edited[i] = z[i] + edited[i];
          kl.before[step] = window.before().kl;
          kl.after[step] = window.after({edited.data(), z.size()}).kl;
        }
      });
  return kl;
}

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

void change_nothing(const std::string& precision, const std::string& why,
                    schemas::TrainedNetwork& trained, base::Progress& progress) {
  trained.info.architecture = "none";
  trained.info.layers = 0;
  trained.info.mass = false;
  trained.info.form = "candidate";
  trained.info.heads = trained.info.mass_layers = trained.info.rank = 0;
  trained.tensors.clear();
  progress.warn("precision " + precision + ": the corrector " + why + ", so it changes nothing");
}

}  // namespace

schemas::TrainedNetwork train_corrector(const schemas::Config& config, const PrecisionData& data,
                                        base::Progress& progress, const FitStore& store) {
  const bool extended = config.corrector.objective == "extended";
  const std::int64_t positives = data.training.positives();
  const std::int64_t usable = extended ? data.training.steps : positives;
  schemas::TrainedNetwork trained;
  for (const char* input : {"logits", "context", "tokens", "hidden"}) {  // the bundle's order
    if (config.corrector.takes(input)) trained.info.inputs.emplace_back(input);
  }
  trained.info.tensors = data.name + ".corrector";
  trained.figures.objective = config.corrector.objective;
  if (data.training.steps > 0) {
    trained.figures.positive_rate =
        static_cast<double>(positives) / static_cast<double>(data.training.steps);
  }
  if (usable == 0) {
    change_nothing(data.name,
                   "has no training step to learn from (corrector.objective: " +
                       config.corrector.objective + ")",
                   trained, progress);
    progress.advance(corrector_trainings(config) * config.training.epochs);
  } else {
    trained = best_corrector(config, data, trained, store, progress);
    if (trained.info.architecture == "none") {
      change_nothing(data.name, "improved in no epoch on leaving windows as they are", trained,
                     progress);
    }
  }
  if (data.validation.steps > 0) {
    const ValidationKl kl = validation_kl(data, trained);
    trained.figures.kl_before = mean(kl.before);
    trained.figures.kl_after = mean(kl.after);
  }
  return trained;
}

}  // namespace dgap::trainer
