#include "app/dry_run.hpp"

#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/machine.hpp"
#include "app/messages.hpp"
#include "app/progress.hpp"
#include "base/random.hpp"
#include "collector/collect.hpp"
#include "engine/model/decoder.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

class NullSink : public engine::LogitsSink {
 public:
  void take(std::int64_t, std::int64_t, const float*, const float*) override {}
};

template <class Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Opening a sequence and its first products cost once what later ones do not.
void warm_up(const engine::Decoder& decoder, std::span<const std::int32_t> tokens) {
  NullSink sink;
  decoder.begin(static_cast<std::int64_t>(tokens.size()))->append(tokens, &sink);
}

/// Seconds per prefix token and per decoded row, at the configuration's mean context.
struct Rates {
  double per_prefill_token = 0, per_decode_row = 0;
};

Rates measure(const schemas::Config& config) {
  engine::DecoderOptions options;
  options.compute = config.model.compute;
  const auto decoder =
      engine::open_decoder(config.model.path, config.model.format, config.model.device, options);
  const std::vector<int>& lengths = config.corpus.context_lengths;
  std::int64_t context = 0;
  for (const int length : lengths) context += length;
  context = std::clamp<std::int64_t>(context / static_cast<std::int64_t>(lengths.size()), 8, 2048);
  const std::int64_t rows = std::min(config.decode.block, config.corpus.decode_steps);

  base::Random random(config.run.seed, "dry-run");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(context + rows));
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(decoder->model().vocab_size)));
  }
  const std::span<const std::int32_t> all(tokens);
  warm_up(*decoder, all.last(static_cast<std::size_t>(std::min<std::int64_t>(rows, 64))));
  const auto sequence = decoder->begin(context + rows);
  NullSink sink;
  Rates rates;
  rates.per_prefill_token =
      seconds_of([&] { sequence->append(all.first(static_cast<std::size_t>(context)), nullptr); }) /
      static_cast<double>(context);
  const auto targets = all.subspan(static_cast<std::size_t>(context));
  for (const schemas::Scheme& scheme : config.precisions) {
    if (context <= scheme.sink_tokens) continue;
    const auto fork = sequence->fork(scheme, context);
    const double seconds = seconds_of([&] {
      config.decode.mode == "stepwise" ? fork->append_stepwise(targets, &sink)
                                       : fork->append(targets, &sink);
    });
    rates.per_decode_row +=
        seconds / static_cast<double>(rows * static_cast<std::int64_t>(config.precisions.size()));
  }
  return rates;
}

/// The nearest folder that exists, at or above `path`.
fs::path existing_part(fs::path path) {
  path = fs::absolute(path);
  while (!fs::exists(path) && path.has_relative_path()) path = path.parent_path();
  return path;
}

Json need_and_have(double need, double have, const char* what) {
  if (need > have) say_warning(std::string("the collection needs more ") + what + " than there is");
  return {{"needed_bytes", std::llround(need)}, {"available_bytes", std::llround(have)}};
}

}  // namespace

Json estimate(const schemas::Config& config) {
  const int threads = config.run.threads > 0 ? std::min(config.run.threads, available_threads())
                                             : available_threads();
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
  const collector::Plan plan = collector::plan(config);
  const Rates rates = measure(config);
  const double seconds = static_cast<double>(plan.prefill_tokens) * rates.per_prefill_token +
                         static_cast<double>(plan.decode_rows) * rates.per_decode_row;
  Memory have = memory();
  if (config.model.memory_budget > 0)
    have.available = std::min(have.available, config.model.memory_budget);
  return {{"run_directory", config.run_directory().string()},
          {"threads", threads},
          {"books", plan.books},
          {"skipped_books", plan.skipped_books},
          {"units", plan.units},
          {"parts", plan.parts},
          {"steps", plan.steps},
          {"prefill_tokens", plan.prefill_tokens},
          {"decode_rows", plan.decode_rows},
          {"collect_time",
           {{"seconds", std::llround(seconds)},
            {"text", duration(seconds)},
            {"prefill_tokens_per_second", std::llround(1 / rates.per_prefill_token)},
            {"decode_rows_per_second", std::llround(1 / rates.per_decode_row)}}},
          {"memory",
           need_and_have(plan.peak_memory_bytes, static_cast<double>(have.available), "memory")},
          {"disk", need_and_have(plan.trace_bytes,
                                 static_cast<double>(
                                     fs::space(existing_part(config.run_directory())).available),
                                 "disk space")}};
}

}  // namespace dgap::app
