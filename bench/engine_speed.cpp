// Speed of the engine on a model file: prefill and blocked decoding over several caches (single
// steps: step_speed).
//
//   engine_speed MODEL [COMPUTE] [CONTEXT...]
//
// Token ids are random: the work does not depend on them. Every figure is the best of some
// repetitions, since other processes may disturb.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "bench/decoding.hpp"
#include "engine/backend/cpu/cpu_decoder.hpp"
#include "engine/cache/exact_cache.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/scheme/scheme.hpp"

namespace {

using namespace dgap;
using namespace dgap::bench;
using Tokens = std::span<const std::int32_t>;

/// A decode in blocks over a fresh fork.
double decode(const engine::Sequence& exact, const std::string& precision, std::int64_t context,
              Tokens tokens, std::size_t block) {
  DropLogits sink;
  const auto fork = exact.fork(schemas::preset(precision), context);
  return seconds([&] {
    for (std::size_t i = 0; i < tokens.size(); i += block)
      fork->append(tokens.subspan(i, std::min(block, tokens.size() - i)), &sink);
  });
}

void measure_context(const engine::Decoder& decoder, std::int64_t context) {
  const std::int64_t steps = 256;
  const auto tokens = random_tokens(context, decoder.model().vocab_size);
  const std::int64_t prefix = context - steps;
  std::unique_ptr<engine::Sequence> exact;
  const double prefill = best_of(context > 4096 ? 2 : 4, [&] {
    exact = decoder.begin(context, true);
    return seconds([&] { exact->append(tokens, nullptr); });
  });
  std::printf("context %lld: prefill %.0f tokens/s\n", static_cast<long long>(context),
              static_cast<double>(context) / prefill);
  const Tokens targets = Tokens(tokens).subspan(static_cast<std::size_t>(prefix));
  const double reference = best_of(3, [&] {
    const auto fork = exact->fork(schemas::preset("exact"), prefix);
    DropLogits sink;
    return seconds([&] { fork->append(targets, &sink); });
  });
  std::printf("  exact fork, block 256: %.0f rows/s\n", static_cast<double>(steps) / reference);
  for (const char* precision : {"K1V1", "K1V1-R32", "K4V4", "rotated-K1V1"}) {
    std::printf("  %-12s", precision);
    for (const std::size_t block : {128, 256}) {
      const double time =
          best_of(3, [&] { return decode(*exact, precision, prefix, targets, block); });
      std::printf("  block %zu: %.0f rows/s", block, static_cast<double>(steps) / time);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: engine_speed MODEL [COMPUTE] [CONTEXT...]\n");
    return 2;
  }
  const std::string compute = argc > 2 ? argv[2] : "auto";
  std::unique_ptr<engine::Decoder> decoder;
  const double open = seconds([&] {
    decoder = engine::open_decoder(argv[1], "auto", "cpu", {compute, engine::ExactCacheType::f16});
  });
  std::printf("%s, %s, %s, opened in %.2f s\n", decoder->model().name.c_str(),
              decoder->compute().c_str(), decoder->cpu_isa().c_str(), open);
  std::vector<std::int64_t> contexts;
  for (int i = 3; i < argc; ++i) contexts.push_back(std::stoll(argv[i]));
  if (contexts.empty()) contexts = {1280, 2048, 8192};
  for (const std::int64_t context : contexts) measure_context(*decoder, context);
  return 0;
}
