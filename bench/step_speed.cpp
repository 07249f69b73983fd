// Step-by-step decoding over exact and packed caches: milliseconds, and bytes read, per token.
//
//   step_speed MODEL [COMPUTE] [CONTEXT...]
//
// Token ids are random: the work does not depend on them. The bandwidth of the machine's memory is
// taken in the same run, as the best rate at which all cores together add up a large array. Figures
// are the best of some repetitions, since other processes may disturb. Prints one JSON object per
// line.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_reduce.h>

#include "bench/decoding.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/model/decoder.hpp"
#include "engine/model/weights.hpp"
#include "schemas/scheme/scheme.hpp"

namespace {

using namespace dgap;
using Tokens = std::span<const std::int32_t>;
constexpr std::int64_t kSteps = 16;
constexpr int kRepetitions = 3;

/// Bytes per second of reading an array of `bytes`.
double read_rate(std::size_t bytes) {
  const std::vector<std::uint64_t> array(bytes / sizeof(std::uint64_t), 1);
  std::uint64_t total = 0;
  const double best = bench::best_of(8, [&] {
    return bench::seconds([&] {
      total += oneapi::tbb::parallel_reduce(
          oneapi::tbb::blocked_range<std::size_t>(0, array.size(), 1 << 16), std::uint64_t{0},
          [&](const auto& range, std::uint64_t sum) {
            return std::accumulate(array.begin() + static_cast<std::ptrdiff_t>(range.begin()),
                                   array.begin() + static_cast<std::ptrdiff_t>(range.end()), sum);
          },
          std::plus<>());
    });
  });
  return total == 0 ? 0.0 : static_cast<double>(bytes) / best;
}

/// Bytes of the weights that a step reads: all but the table of embeddings where it is another.
std::int64_t weight_bytes(const engine::HyperParameters& p, const std::string& compute) {
  const std::int64_t unread = p.tied_embeddings ? 0 : p.vocab_size * p.hidden_size;
  return (engine::parameter_count(p) - unread) * (compute == "bf16" ? 2 : 4);
}

/// K1V1, but keys of four bits in 16 of 90 pairs of layer and head, spread evenly.
schemas::Scheme mixed_scheme(const engine::ModelInfo& model) {
  schemas::Scheme scheme = schemas::preset("K1V1");
  scheme.name = "K1V1-some-K4";
  const schemas::TensorScheme four_bits = schemas::preset("K4V4").key;
  for (int i = 0; i < model.layers * model.kv_heads; ++i)
    if ((i + 1) * 16 / 90 > i * 16 / 90)
      scheme.overrides.push_back(
          {.layers = {i / model.kv_heads}, .heads = {i % model.kv_heads}, .key = four_bits});
  return scheme;
}

void measure(const engine::Decoder& decoder, const engine::Sequence& exact, Tokens tokens,
             const schemas::Scheme& scheme, std::int64_t context, std::int64_t weights,
             double bandwidth) {
  std::int64_t cache_bytes = 0;
  const double seconds = bench::best_of(kRepetitions, [&] {
    const auto fork = exact.fork(scheme, context);
    const engine::CacheBytes bytes = fork->cache_bytes();
    cache_bytes = bytes.total_bytes_key + bytes.total_bytes_value;
    bench::DropLogits sink;
    return bench::seconds([&] { fork->append_stepwise(tokens, &sink); }) /
           static_cast<double>(kSteps);
  });
  const double rate = static_cast<double>(cache_bytes + weights) / seconds;
  std::printf(
      "{\"scheme\": \"%s\", \"context\": %lld, \"compute\": \"%s\", \"isa\": \"%s\", "
      "\"ms_per_token\": %.2f, \"tokens_per_second\": %.1f, \"cache_megabytes\": %.1f, "
      "\"weight_megabytes\": %.1f, \"gigabytes_per_second\": %.2f, "
      "\"memory_gigabytes_per_second\": %.2f}\n",
      scheme.name.c_str(), static_cast<long long>(context), decoder.compute().c_str(),
      decoder.cpu_isa().c_str(), seconds * 1e3, 1 / seconds, static_cast<double>(cache_bytes) / 1e6,
      static_cast<double>(weights) / 1e6, rate / 1e9, bandwidth / 1e9);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: step_speed MODEL [COMPUTE] [CONTEXT...]\n");
    return 2;
  }
  const auto decoder = engine::open_decoder(argv[1], "auto", "cpu", {argc > 2 ? argv[2] : "auto"});
  std::vector<std::int64_t> contexts;
  for (int i = 3; i < argc; ++i) contexts.push_back(std::stoll(argv[i]));
  if (contexts.empty()) contexts = {8192 - kSteps};
  const std::int64_t weights =
      weight_bytes(engine::open_weights(argv[1], "auto")->parameters(), decoder->compute());
  const double bandwidth = read_rate(std::size_t{1} << 29);
  for (const std::int64_t context : contexts) {
    const auto tokens = bench::random_tokens(context + kSteps, decoder->model().vocab_size);
    const auto exact = decoder->begin(context, true);
    exact->append(Tokens(tokens).first(static_cast<std::size_t>(context)), nullptr);
    std::vector<schemas::Scheme> schemes;
    for (const char* precision : {"exact", "K4V4", "K2V2", "K1V1", "llamacpp-q4_0"})
      schemes.push_back(schemas::preset(precision));
    schemes.push_back(mixed_scheme(decoder->model()));
    for (const schemas::Scheme& scheme : schemes)
      measure(*decoder, *exact, Tokens(tokens).last(kSteps), scheme, context, weights, bandwidth);
  }
  return 0;
}
