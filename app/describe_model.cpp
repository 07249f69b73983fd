#include <map>
#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "engine/formats/gguf_file.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

Json tensors(const std::string& path, std::int64_t& parameters) {
  const engine::GgufFile file(path);
  std::map<std::string, int> types;
  for (const engine::GgufFile::Tensor& tensor : file.tensors()) {
    ++types[std::string(engine::gguf_block(tensor.type).name)];
    parameters += tensor.elements();
  }
  return types;
}

Json tokenizer(const std::string& path) {
  const auto t = engine::open_tokenizer(path, "auto");
  return {{"vocabulary", t->vocab_size()},
          {"bos", t->bos()},
          {"eos", t->eos()},
          {"sha256", t->sha256()}};
}

}  // namespace

Json describe_model(const std::filesystem::path& file, bool whole) {
  const auto weights = engine::open_weights(file.string(), "auto");
  const engine::HyperParameters& p = weights->parameters();
  std::int64_t parameters = 0;
  const Json types = tensors(file.string(), parameters);
  Json answer = {{"name", p.name},
                 {"architecture", p.architecture},
                 {"license", p.license},
                 {"parameters", parameters},
                 {"tensors", types},
                 {"vocabulary", p.vocab_size},
                 {"hidden_size", p.hidden_size},
                 {"intermediate_size", p.intermediate_size},
                 {"layers", p.layers},
                 {"heads", p.heads},
                 {"kv_heads", p.kv_heads},
                 {"head_dim", p.head_dim},
                 {"context_length", p.context_length},
                 {"rope_theta", p.rope.theta},
                 {"tied_embeddings", p.tied_embeddings},
                 {"tokenizer", tokenizer(file.string())}};
  if (whole) {
    engine::check_weights(*weights);
    answer["sha256"] = weights->sha256();
  }
  return answer;
}

}  // namespace dgap::app
