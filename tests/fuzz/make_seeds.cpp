// make_seeds SOURCE_FOLDER OUT: seeds for every target, OUT/<target>/<name>: the fixtures of
// bundles, the ready configurations, and what the tests' own writers make.
#include <cstdio>
#include <exception>

#include "base/files.hpp"
#include "tests/engine/testing/tiny_hf.hpp"
#include "tests/engine/tokenizer/toy_folder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/folder.hpp"
#include "tests/fuzz/trace_seeds.hpp"

namespace {

using namespace dgap;
namespace fs = std::filesystem;

void put(const fs::path& out, const char* target, const std::string& name,
         const std::string& bytes) {
  fs::create_directories(out / target);
  std::ofstream(out / target / name, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

testing::TinyModel tiny_model() {
  testing::TinyModel model;
  model.layers = model.heads = model.kv_heads = 1;
  model.head_dim = 32, model.hidden = model.intermediate = 32;
  model.vocabulary = model.tokenizer.size();
  return model;
}

void bundle_seeds(const fs::path& source, const fs::path& out) {
  for (const fs::directory_entry& entry :
       fs::directory_iterator(source / "tests/runtime/fixtures")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    const std::string manifest = base::read_file(entry.path() / "manifest.json");
    const std::string weights = base::read_file(entry.path() / "weights.safetensors");
    put(out, "manifest", name, manifest);
    put(out, "safetensors", name, weights);
    put(out, "bundle", name, fuzz::pack({manifest, weights}));
  }
}

void config_seeds(const fs::path& source, const fs::path& out) {
  for (const fs::directory_entry& entry : fs::directory_iterator(source / "configs")) {
    if (entry.is_regular_file())
      put(out, "config", entry.path().filename(), base::read_file(entry.path()));
  }
}

void model_seeds(const fs::path& out) {
  const testing::TinyModel model = tiny_model();
  put(out, "gguf", "model", testing::tiny_gguf(model));
  for (const char* split : {"smollm", "llama-bpe", "qwen2", "gpt-2"}) {
    testing::GgufWriter writer;
    testing::TinyModel other = model;
    other.tokenizer.pretokenizer = split;
    testing::write_tiny_metadata(writer, other);
    other.tokenizer.write(writer, other.vocabulary);
    put(out, "gguf", split, writer.finish());
    put(out, "tokenizer", split, writer.finish());
  }
  for (const char* text : {"0the other and ", "1\xc3\xa9 12 345  x", "2<s>a<s> abab"})
    put(out, "tokenizer", std::string("text") + text[0], text);
}

void huggingface_seeds(const fs::path& out) {
  const testing::TinyModel model = tiny_model();
  const std::string config = testing::json_text(testing::llama_config(model));
  const std::string weights = testing::safetensors(testing::hf_tensors(model));
  const auto pack = [&](std::optional<std::string> json, std::optional<std::string> pieces) {
    return fuzz::pack(
        {config, std::nullopt, std::move(json), std::nullopt, std::move(pieces), weights});
  };
  put(out, "huggingface", "byte-level", pack(testing::byte_level_json().dump(), std::nullopt));
  put(out, "huggingface", "spaced", pack(testing::spaced_json().dump(), std::nullopt));
  put(out, "huggingface", "pieces", pack(std::nullopt, testing::ToyPieces().bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const fs::path source = argv[1], out = argv[2];
    bundle_seeds(source, out);
    config_seeds(source, out);
    model_seeds(out);
    huggingface_seeds(out);
    int count = 0;
    for (const std::string& trace : fuzz::trace_seeds())
      put(out, "trace", std::to_string(count++), trace);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
