#include "trainer/trainer.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "base/text.hpp"
#include "schemas/results/results.hpp"
#include "trainer/training.hpp"

namespace dgap::trainer {
namespace {

namespace fs = std::filesystem;

std::size_t precision_index(const schemas::TracePart& trace, const std::string& name) {
  const auto found = std::find_if(trace.precisions.begin(), trace.precisions.end(),
                                  [&](const auto& info) { return info.name == name; });
  if (found == trace.precisions.end()) {
    throw base::FailedError("precision " + name +
                            " is not in the traces; run `dgap collect` first");
  }
  return static_cast<std::size_t>(found - trace.precisions.begin());
}

PrecisionData read_data(const schemas::Config& config, const schemas::TraceSet& traces,
                        const schemas::WindowResult& window, const std::string& name) {
  schemas::TraceSelection selection;
  selection.precisions = {name};
  selection.hidden = config.corrector.takes("hidden");
  PrecisionData data;
  data.name = name;
  data.alpha = window.alpha;
  {
    const auto training = traces.read_split(config.corpus.splits.train, selection);
    data.training = make_samples(training, precision_index(training, name), config, data.alpha,
                                 window.window, window.window_mass());
  }
  data.validation_trace = traces.read_split(config.corpus.splits.validation, selection);
  data.precision = precision_index(data.validation_trace, name);
  data.validation = make_samples(data.validation_trace, data.precision, config, data.alpha,
                                 window.window, window.window_mass());
  data.standardisation = standardisation(data.training);
  return data;
}

/// Whether `directory` holds the networks of `precision` that this key gives: a killed training
/// goes on at the next precision.
bool is_trained(const fs::path& directory, const std::string& precision, const std::string& key) {
  try {
    return schemas::read_trained(directory, precision).key == key;
  } catch (const base::IoError&) {
    return false;
  }
}

std::string summary(const std::string& name, const schemas::TrainedNetwork& detector,
                    const schemas::TrainedNetwork& corrector) {
  const auto number = [](const std::optional<double>& x) { return x ? base::number(*x) : "none"; };
  return "precision " + name + ": detector AUC " + number(detector.figures.auc) +
         ", validation KL " + number(corrector.figures.kl_before) + " -> " +
         number(corrector.figures.kl_after) + " nats with every step corrected";
}

}  // namespace

void train(const schemas::Config& config, base::Progress& progress) {
  const fs::path run = config.run_directory();
  const schemas::Stage stage(config, "train",
                             {run / "traces" / "index.json", run / "windows.json"});
  if (stage.done()) return progress.info("train: up to date");
  const schemas::TraceSet traces(run / "traces");
  const schemas::Windows windows = schemas::read_windows(run / "windows.json");
  const std::int64_t trainings = corrector_trainings(config);
  const std::int64_t networks = trainings + (config.detector.escalate ? 2 : 1);
  const std::int64_t epochs = networks * config.training.epochs;  // of one precision

  std::vector<fs::path> outputs;
  progress.begin("train", epochs * static_cast<std::int64_t>(config.precisions.size()), "epochs");
  for (const schemas::Scheme& scheme : config.precisions) {
    const std::string& name = scheme.name;
    const std::string key = stage.key() + "/" + name;
    for (const char* kind : {"detector", "corrector"}) {
      for (const fs::path& file : schemas::trained_files(run / kind, name)) outputs.push_back(file);
    }
    if (is_trained(run / "detector", name, key) && is_trained(run / "corrector", name, key)) {
      progress.advance(epochs);
      continue;
    }
    base::throw_if_stop_requested();
    const auto window = windows.find(name);
    if (window == windows.end()) {
      throw base::FailedError((run / "windows.json").string() + ": has no precision " + name +
                              "; run `dgap calibrate` again");
    }
    const PrecisionData data = read_data(config, traces, window->second, name);
    const FitStore store =
        trainings > 1 ? FitStore(run / "corrector" / (name + ".fits"), key) : FitStore();
    schemas::TrainedNetwork detector = train_detector(config, data, progress);
    schemas::TrainedNetwork corrector = train_corrector(config, data, progress, store);
    detector.key = corrector.key = key;
    schemas::write_trained(run / "detector", name, detector);
    schemas::write_trained(run / "corrector", name, corrector);
    store.clear();
    progress.info(summary(name, detector, corrector));
  }
  progress.end();
  stage.finish(outputs);
}

}  // namespace dgap::trainer
