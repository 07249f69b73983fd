// Paired steps per second of the collector's own twin decode, columns of the trace included, in one
// process and without files: what bench/peers/collector_vs_transformers.py compares.
//
//   collector_speed MODEL TOKENS_FILE CONTEXT STEPS BLOCK PRECISION...
//
// TOKENS_FILE holds ids as decimal text, at least CONTEXT + STEPS; BLOCK is decode.block, 0 = step
// by step. Contexts below 16,384 are run three times, the best of which counts. Prints one JSON
// object.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "collector/settings.hpp"
#include "collector/twin_decode.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/scheme/scheme.hpp"

namespace {

using namespace dgap;
using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The most memory that the process has had, file pages included.
double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

/// Makes the columns as a collection does, and notes when the decode begins and ends.
class TimedColumns : public collector::TwinDecode::Listener {
 public:
  TimedColumns(collector::PairedBlock& rows, schemas::TracePart& part) : rows_(rows), part_(part) {}
  void begin_group(collector::PrecisionGroup group) override { group_ = group; }
  void begin_unit(int) override { begin = Clock::now(); }
  void take_block(std::int64_t first, std::span<const std::int32_t> targets) override {
    rows_.put_into(part_, group_, first, targets, "bench");
  }
  void end_unit(const std::vector<engine::CacheBytes>&) override { end = Clock::now(); }
  Clock::time_point begin, end;

 private:
  collector::PairedBlock& rows_;
  schemas::TracePart& part_;
  collector::PrecisionGroup group_;
};

schemas::Config configuration(int context, int steps, int block, int count, char** names) {
  schemas::Config config;
  config.corpus.context_lengths = {context};
  config.corpus.decode_steps = steps;
  config.decode.mode = block == 0 ? "stepwise" : "blocked";
  if (block > 0) config.decode.block = block;
  for (int i = 0; i < count; ++i) config.precisions.push_back(schemas::preset(names[i]));
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr,
                 "usage: collector_speed MODEL TOKENS_FILE CONTEXT STEPS BLOCK PRECISION...\n");
    return 2;
  }
  const int context = std::stoi(argv[3]), steps = std::stoi(argv[4]);
  const schemas::Config config =
      configuration(context, steps, std::stoi(argv[5]), argc - 6, argv + 6);
  std::ifstream file(argv[2]);
  std::vector<std::int32_t> tokens{std::istream_iterator<std::int32_t>(file), {}};
  if (tokens.size() < static_cast<std::size_t>(context + steps)) {
    std::fprintf(stderr, "%s holds %zu ids; %d are needed\n", argv[2], tokens.size(),
                 context + steps);
    return 1;
  }
  tokens.resize(static_cast<std::size_t>(context + steps));

  const auto decoder = engine::open_decoder(argv[1], "auto", "cpu", {});
  const engine::ModelInfo& model = decoder->model();
  collector::PairedBlock rows(
      collector::block_shape(config, model.vocab_size, model.vocab_size, model.hidden_size));
  const collector::TwinDecode twin{*decoder,
                                   config.precisions,
                                   steps,
                                   config.decode.block,
                                   config.decode.mode == "stepwise",
                                   config.precisions.size()};
  double prefill = 1e9, decode = 1e9, kl = 0;
  const int repetitions = context < 16384 ? 3 : 1;  // the first warms up
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    schemas::TracePart part;
    part.precisions.resize(config.precisions.size());
    part.columns.resize(config.precisions.size());
    rows.prepare(part, steps);
    TimedColumns timed(rows, part);
    const auto begin = Clock::now();
    twin.run(tokens, config.corpus.context_lengths, rows, timed);
    prefill = std::min(prefill, seconds(begin, timed.begin));
    decode = std::min(decode, seconds(timed.begin, timed.end));
    kl = 0;
    for (const float k : part.columns.front().kl) kl += k / static_cast<double>(steps);
  }
  const auto paired = static_cast<double>(steps) * static_cast<double>(config.precisions.size());
  std::printf(
      "{\"mode\": \"%s\", \"context\": %d, \"schemes\": %zu, \"steps\": %d, \"compute\": \"%s\", "
      "\"prefill_and_fork_seconds\": %.4f, \"decode_seconds\": %.4f, \"paired_steps_per_second\": "
      "%.1f, "
      "\"mean_kl_of_first\": %.5f, \"peak_gigabytes\": %.3f}\n",
      config.decode.mode.c_str(), context, config.precisions.size(), steps,
      decoder->compute().c_str(), prefill, decode, paired / decode, kl, peak_gigabytes());
}
