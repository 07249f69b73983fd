// What a bundle adds to decoding: tokens are generated over the cache that a precision of the
// bundle is of, greedily, every row going through the runtime before its token is chosen.
//
//   decode_overhead MODEL BUNDLE PRECISION [CONTEXT [TOKENS]]
//
// PRECISION must be a preset's name too. Decoding uses all cores, the runtime one. Both are timed
// at every step, so that what disturbs the machine disturbs both. Prints one JSON object.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "bench/decoding.hpp"
#include "dgap/runtime.hpp"
#include "schemas/scheme/scheme.hpp"

namespace {

using namespace dgap;

class KeepRow : public engine::LogitsSink {
 public:
  explicit KeepRow(std::int64_t width) : row(static_cast<std::size_t>(width)) {}
  void take(std::int64_t, std::int64_t, const float* logits, const float*) override {
    std::copy_n(logits, row.size(), row.begin());
  }
  std::vector<float> row;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void run(char** argv, std::int64_t context_length, int tokens) {
  const auto decoder = engine::open_decoder(argv[1], "auto", "cpu", {"auto"});
  const Bundle bundle(argv[2]);
  Restorer restorer(bundle, argv[3]);
  Context context(bundle, context_length + tokens);
  const auto prefix = bench::random_tokens(context_length, decoder->model().vocab_size);
  const auto exact = decoder->begin(context_length, true);
  exact->append(prefix, nullptr);
  const auto sequence = exact->fork(schemas::preset(argv[3]), context_length - 1);
  context.begin(prefix);

  KeepRow sink(decoder->model().vocab_size);
  std::int32_t token = prefix.back();
  std::vector<double> decoding, both;
  double added = 0;
  int restored = 0;
  for (int i = 0; i < tokens; ++i) {
    const double decode = bench::seconds([&] { sequence->append_stepwise({&token, 1}, &sink); });
    const double restore = bench::seconds(
        [&] { restored += restorer.restore(sink.row, context).verdict == DGAP_RESTORE ? 1 : 0; });
    token = static_cast<std::int32_t>(std::max_element(sink.row.begin(), sink.row.end()) -
                                      sink.row.begin());
    const double accept = bench::seconds([&] { context.accept(token); });
    decoding.push_back(decode);
    both.push_back(decode + restore + accept);
    added += restore + accept;
  }
  const double alone = std::accumulate(decoding.begin(), decoding.end(), 0.0);
  std::printf(
      "{\"precision\": \"%s\", \"context\": %lld, \"tokens\": %d, \"restored\": %d, "
      "\"takes_context\": %s, \"decode_ms\": %.3f, \"added_us\": %.1f, \"added_percent\": %.3f, "
      "\"p95_decode_ms\": %.3f, \"p95_both_ms\": %.3f, \"tokens_per_second\": %.2f, "
      "\"tokens_per_second_both\": %.2f}\n",
      argv[3], static_cast<long long>(context_length), tokens, restored,
      restorer.takes_context() ? "true" : "false", 1e3 * alone / tokens, 1e6 * added / tokens,
      100 * added / alone, 1e3 * quantile(decoding, 0.95), 1e3 * quantile(both, 0.95),
      tokens / alone, tokens / (alone + added));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: decode_overhead MODEL BUNDLE PRECISION [CONTEXT [TOKENS]]\n");
    return 2;
  }
  try {
    run(argv, argc > 4 ? std::stoll(argv[4]) : 1024, argc > 5 ? std::stoi(argv[5]) : 512);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
