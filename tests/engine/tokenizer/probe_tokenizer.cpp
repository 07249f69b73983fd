// probe_tokenizer MODEL OUTPUT TEXT...: ids of text files, per file their number and then they, as
// int32; prints the rate. MODEL "tiny" stands for a tiny model, written to OUTPUT.gguf.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    std::string model = argv[1];
    if (model == "tiny") {
      model = std::string(argv[2]) + ".gguf";
      dgap::base::write_file_atomically(model, dgap::testing::tiny_gguf());
    }
    const auto tokenizer = dgap::engine::open_tokenizer(model, "auto");
    std::ofstream out(argv[2], std::ios::binary);
    double seconds = 0.0, bytes = 0.0;
    for (int i = 3; i < argc; ++i) {
      const std::string text = dgap::base::read_file(argv[i]);
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<std::int32_t> ids = tokenizer->encode(text);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      bytes += static_cast<double>(text.size());
      if (tokenizer->decode(ids) != text) {
        std::fprintf(stderr, "%s: decode is not the inverse of encode\n", argv[i]);
        return 1;
      }
      const auto count = static_cast<std::int32_t>(ids.size());
      out.write(reinterpret_cast<const char*>(&count), sizeof count);
      out.write(reinterpret_cast<const char*>(ids.data()), std::streamsize{count} * 4);
    }
    std::printf("%.1f MB at %.1f MB/s\n", bytes / 1e6, seconds > 0.0 ? bytes / 1e6 / seconds : 0.0);
  } catch (const dgap::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
