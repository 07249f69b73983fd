#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "engine/formats/open_weights.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace dgap::app {
namespace {

using Json = nlohmann::ordered_json;

Json rope(const engine::RopeParameters& rope) {
  Json answer = {{"theta", rope.theta}, {"scaling", name_of(rope.scaling)}};
  if (rope.scaling != engine::RopeParameters::Scaling::none) answer["factor"] = rope.factor;
  if (rope.original_context > 0) answer["original_context"] = rope.original_context;
  if (!rope.divisors.empty()) answer["divisors"] = rope.divisors.size();
  return answer;
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
  Json answer = {{"name", p.name},
                 {"architecture", p.architecture},
                 {"license", p.license},
                 {"parameters", engine::parameter_count(p)},
                 {"tensors", weights->stored_types()},
                 {"vocabulary", p.vocab_size},
                 {"hidden_size", p.hidden_size},
                 {"intermediate_size", p.intermediate_size},
                 {"layers", p.layers},
                 {"heads", p.heads},
                 {"kv_heads", p.kv_heads},
                 {"head_dim", p.head_dim},
                 {"context_length", p.context_length},
                 {"rope", rope(p.rope)},
                 {"attention_bias", p.attention_bias},
                 {"sliding_window", p.sliding_window},
                 {"tied_embeddings", p.tied_embeddings},
                 {"tokenizer", tokenizer(file.string())}};
  if (!p.notes.empty()) answer["notes"] = p.notes;
  if (whole) {
    engine::check_weights(*weights);
    answer["sha256"] = weights->sha256();
  }
  return answer;
}

}  // namespace dgap::app
