// Seconds that training a corrector takes on the traces of a run: what
// bench/peers/corrector_vs_torch.py compares.
//
//   corrector_speed CONFIG PRECISION THREADS [FOLDER]
//
// Reads <run>/traces and <run>/windows.json of the configuration. With FOLDER, writes what the
// training sees there as raw little-endian arrays, for the peer. Prints one JSON object.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "runtime/features.hpp"
#include "schemas/config/config.hpp"
#include "schemas/results/results.hpp"
#include "schemas/trace/trace.hpp"
#include "trainer/training.hpp"

namespace {

using namespace dgap;
using Clock = std::chrono::steady_clock;

template <class T>
void write_array(const std::filesystem::path& file, const std::vector<T>& values) {
  base::write_file_atomically(
      file, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

/// phi [N, 20], own [N, K, inputs] (both standardised), z, target, ranked_p [N, K], ranked (i32)
/// [N, K], tail [N, 3] (probability, logit, negative entropy; f64). Windows are full.
void write_samples(const trainer::Samples& s, const trainer::Standardisation& standardisation,
                   const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const int own = s.own_inputs(), k = s.window;
  std::vector<float> phi = s.features, inputs, z, target, ranked_p, row(std::size_t(k) * own);
  std::vector<std::int32_t> ranked;
  std::vector<double> tail;
  const auto standardise = [&](float* x, std::size_t count, int first) {
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = (x[i] - standardisation.mean[first + i]) * standardisation.scale[first + i];
    }
  };
  for (std::int64_t step = 0; step < s.steps; ++step) {
    standardise(phi.data() + step * runtime::kDetectorWidth, runtime::kDetectorWidth, 0);
    s.candidate_inputs(step, row.data(), own);
    for (int i = 0; i < k; ++i) standardise(row.data() + i * own, own, runtime::kDetectorWidth);
    inputs.insert(inputs.end(), row.begin(), row.end());
    const auto append = [&](auto& to, const auto& from) {
      to.insert(to.end(), from.begin() + step * s.stride, from.begin() + step * s.stride + k);
    };
    append(z, s.logits), append(target, s.target);
    append(ranked, s.ranked), append(ranked_p, s.ranked_probability);
    for (const double x :
         {double{s.tail_probability[step]}, s.tail_logit[step], s.negative_entropy[step]}) {
      tail.push_back(x);
    }
  }
  write_array(folder / "phi", phi), write_array(folder / "own", inputs);
  write_array(folder / "z", z), write_array(folder / "target", target);
  write_array(folder / "ranked", ranked), write_array(folder / "ranked_p", ranked_p);
  write_array(folder / "tail", tail);
}

trainer::PrecisionData read(const schemas::Config& config, const std::string& precision) {
  const auto run = config.run_directory();
  const schemas::TraceSet traces(run / "traces");
  const auto window = schemas::read_windows(run / "windows.json").at(precision);
  schemas::TraceSelection selection;
  selection.precisions = {precision};
  trainer::PrecisionData data;
  data.name = precision;
  data.alpha = window.alpha;
  const auto training = traces.read_split(config.corpus.splits.train, selection);
  data.training = trainer::make_samples(training, 0, config, window.alpha, window.window);
  data.validation_trace = traces.read_split(config.corpus.splits.validation, selection);
  data.validation =
      trainer::make_samples(data.validation_trace, 0, config, window.alpha, window.window);
  data.standardisation = trainer::standardisation(data.training);
  return data;
}

void run(const schemas::Config& config, const std::string& precision, const char* folder) {
  const trainer::PrecisionData data = read(config, precision);
  if (folder != nullptr) {
    const std::filesystem::path to(folder);
    write_samples(data.training, data.standardisation, to / "train");
    write_samples(data.validation, data.standardisation, to / "validation");
  }
  base::Progress progress;
  double best = 1e9, loss = 0;
  for (int repetition = 0; repetition < 2; ++repetition) {
    const auto begin = Clock::now();
    const auto trained = trainer::train_corrector(config, data, progress);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    loss = trained.figures.validation_loss.back();
  }
  std::printf(
      "{\"steps\": %lld, \"validation_steps\": %lld, \"window\": %d, \"own_inputs\": %d, "
      "\"epochs\": %d, \"batch\": %d, \"seconds\": %.3f, \"final_validation_loss\": %.6f}\n",
      static_cast<long long>(data.training.steps), static_cast<long long>(data.validation.steps),
      data.training.window, data.training.own_inputs(), config.training.epochs,
      config.training.batch, best, loss);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: corrector_speed CONFIG PRECISION THREADS [FOLDER]\n");
    return 2;
  }
  try {
    schemas::Config config = schemas::read_config(argv[1]);
    config.training.patience = config.training.epochs;  // all epochs, as the peer
    const int threads = std::stoi(argv[3]);
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
    tbb::task_arena(threads).execute([&] { run(config, argv[2], argc > 4 ? argv[4] : nullptr); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
