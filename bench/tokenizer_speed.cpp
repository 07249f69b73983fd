// tokenizer_speed MODEL TEXT...: how fast a model's tokenizer is, on one core. Every file is
// encoded as a whole, the best of three times counts; then runs without a break, twice as long each
// time.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/random.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace {

using dgap::engine::Tokenizer;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Measured {
  double seconds = 1e9;
  std::size_t tokens = 0;
};

Measured best_of_three(const Tokenizer& tokenizer, const std::string& text) {
  Measured best;
  for (int i = 0; i < 3; ++i) {
    const double begin = cpu_seconds();
    best.tokens = tokenizer.encode(text).size();
    best.seconds = std::min(best.seconds, cpu_seconds() - begin);
  }
  return best;
}

void measure_books(const Tokenizer& tokenizer, int count, char** paths) {
  double bytes = 0.0, seconds = 0.0, tokens = 0.0;
  for (int i = 0; i < count; ++i) {
    const std::string text = dgap::base::read_file(paths[i]);
    const Measured measured = best_of_three(tokenizer, text);
    bytes += static_cast<double>(text.size());
    seconds += measured.seconds;
    tokens += static_cast<double>(measured.tokens);
  }
  std::printf("%d texts, %.1f MB, %.2f bytes per token: %.1f MB/s per core\n", count, bytes / 1e6,
              bytes / tokens, bytes / 1e6 / seconds);
}

void measure_runs(const Tokenizer& tokenizer) {
  dgap::base::Random random(1);
  std::string letters;
  while (letters.size() < 4u << 20) letters += static_cast<char>('a' + random.below(26));
  const std::pair<const char*, std::string> runs[] = {{"one letter", std::string(4u << 20, 'a')},
                                                      {"random letters", letters},
                                                      {"spaces", std::string(4u << 20, ' ')}};
  for (const auto& [name, run] : runs) {
    std::printf("%-15s", name);
    for (std::size_t size = 1u << 20; size <= run.size(); size *= 2) {
      const double seconds = best_of_three(tokenizer, run.substr(0, size)).seconds;
      std::printf("  %zu MiB %.3f s", size >> 20, seconds);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_speed MODEL TEXT...\n");
    return 2;
  }
  try {
    const double begin = cpu_seconds();
    const auto tokenizer = dgap::engine::open_tokenizer(argv[1], "auto");
    std::printf("%s: opened in %.2f s\n", argv[1], cpu_seconds() - begin);
    measure_books(*tokenizer, argc - 2, argv + 2);
    measure_runs(*tokenizer);
  } catch (const dgap::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
