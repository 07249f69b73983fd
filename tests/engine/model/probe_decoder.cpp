// Writes the logits of a text for the conformance test against transformers.
//
//   probe_decoder MODEL COMPUTE TOKENS OUT
//
// TOKENS: int32 ids. OUT: float32 [tokens, vocab]. The exact cache is held in f32.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/files.hpp"
#include "engine/model/decoder.hpp"

namespace {

class FileSink : public dgap::engine::LogitsSink {
 public:
  FileSink(const char* path, std::int64_t vocab) : out_(path, std::ios::binary), vocab_(vocab) {}
  void take(std::int64_t, std::int64_t rows, const float* logits, const float*) override {
    out_.write(reinterpret_cast<const char*>(logits), rows * vocab_ * 4);
  }

 private:
  std::ofstream out_;
  std::int64_t vocab_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string bytes = dgap::base::read_file(argv[3]);
  std::vector<std::int32_t> tokens(bytes.size() / 4);
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * 4);
  const auto decoder = dgap::engine::open_decoder(argv[1], "auto", "cpu",
                                                  {argv[2], dgap::engine::ExactCacheType::f32});
  FileSink sink(argv[4], decoder->model().vocab_size);
  const auto sequence = decoder->begin(std::ssize(tokens), false);
  sequence->append(tokens, &sink);
  std::printf("%s %s\n", decoder->compute().c_str(), decoder->cpu_isa().c_str());
  return 0;
}
