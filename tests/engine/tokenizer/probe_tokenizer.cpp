// probe_tokenizer MODEL OUTPUT [--special] TEXTS: ids of many texts. TEXTS holds them one after the
// other, each after its length as uint32; OUTPUT gets per text the number of ids, the ids, the
// number of bytes of decode, and those bytes. Prints bos, eos, the hash and the rate. MODEL "tiny"
// stands for a tiny model, written to OUTPUT.gguf.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/engine/testing/tiny_gguf.hpp"

namespace {

void write_number(std::ofstream& out, std::size_t number) {
  const auto value = static_cast<std::uint32_t>(number);
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

int run(int argc, char** argv) {
  std::string model = argv[1];
  if (model == "tiny") {
    model = std::string(argv[2]) + ".gguf";
    dgap::base::write_file_atomically(model, dgap::testing::tiny_gguf());
  }
  const bool special = std::string_view(argv[3]) == "--special";
  const std::string texts = dgap::base::read_file(argv[argc - 1]);
  const auto tokenizer = dgap::engine::open_tokenizer(model, "auto");
  std::ofstream out(argv[2], std::ios::binary);
  double seconds = 0.0;
  for (std::size_t at = 0; at < texts.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, texts.data() + at, sizeof size);
    const std::string_view text = std::string_view(texts).substr(at + sizeof size, size);
    at += sizeof size + size;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<std::int32_t> ids = tokenizer->encode(text, special);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    write_number(out, ids.size());
    out.write(reinterpret_cast<const char*>(ids.data()),
              static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
    const std::string decoded = tokenizer->decode(ids);
    write_number(out, decoded.size());
    out.write(decoded.data(), static_cast<std::streamsize>(decoded.size()));
    std::string joined;
    for (const std::int32_t id : ids) joined += tokenizer->decode_next(std::span(&id, 1));
    if (joined != decoded && joined != " " + decoded) {
      std::fprintf(stderr, "ids decoded one by one do not join to the text\n");
      return 1;
    }
  }
  const double megabytes = static_cast<double>(texts.size()) / 1e6;
  std::printf("bos %d eos %d sha256 %s: %.1f MB at %.1f MB/s\n", tokenizer->bos(), tokenizer->eos(),
              tokenizer->sha256().substr(0, 8).c_str(), megabytes,
              seconds > 0.0 ? megabytes / seconds : 0.0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return run(argc, argv);
  } catch (const dgap::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
