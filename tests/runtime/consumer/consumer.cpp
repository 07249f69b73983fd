// consumer_cpp BUNDLE PRECISION: what consumer.c does, over contiguous logits. Must print the same.
#include <cstdio>
#include <dgap/runtime.hpp>
#include <optional>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::vector<float> row;
    std::optional<dgap::Restorer> restorer;
    {
      const dgap::Bundle bundle(argv[1]);
      row.resize(static_cast<std::size_t>(bundle.vocab_size()));
      restorer.emplace(bundle, argv[2]);
      try {
        dgap::Restorer(bundle, "no such precision");
        return 1;
      } catch (const dgap::RuntimeError& error) {
        if (error.status() != DGAP_INVALID_ARGUMENT) return 1;
      }
    }
    const auto n = row.size();
    for (std::size_t i = 0; i < n; ++i) row[i] = static_cast<float>((i * 37) % n) * 0.03125f;
    const dgap_result scored = restorer->score(row);
    const dgap_result result = restorer->restore(row);
    if (scored.risk != result.risk) return 1;
    double sum = 0.0;
    for (const float x : row) sum += static_cast<double>(x);
    std::printf("verdict %d window %d risk %.9g sum %.17g\n", result.verdict, result.window,
                static_cast<double>(result.risk), sum);
  } catch (const dgap::RuntimeError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
