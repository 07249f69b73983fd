#include "engine/formats/gguf_weights.hpp"

#include <utility>

#include "base/error.hpp"
#include "engine/formats/gguf_file.hpp"
#include "engine/formats/gguf_parameters.hpp"
#include "engine/formats/named_weights.hpp"

namespace dgap::engine {
namespace {

constexpr TensorNaming kNaming{
    "blk.",
    {"token_embd.weight", "output_norm.weight", "output.weight", "attn_norm.weight",
     "ffn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
     "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "attn_q.bias", "attn_k.bias",
     "attn_v.bias", "attn_output.bias"},
    true};

/// Without the dimensions of 1 after the last of its own.
std::vector<std::int64_t> shape_of(const GgufFile::Tensor& tensor) {
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

void refuse_known_extras(const std::string& path, std::string_view name) {
  if (name.find("_exps.") == std::string_view::npos && !name.starts_with("rope_factors")) return;
  throw base::UsageError(path + ": holds the tensor " + in_quotes(name) + "; " +
                         (name.starts_with("rope_factors") ? "LongRoPE" : "mixtures of experts") +
                         " are not supported in this version");
}

}  // namespace

std::unique_ptr<WeightSource> open_gguf_weights(const std::string& path) {
  auto file = std::make_shared<const GgufFile>(path);
  NamedWeights::Contents contents;
  contents.path = path;
  contents.parameters = read_gguf_parameters(*file);
  contents.naming = kNaming;
  contents.interleaved = contents.parameters.architecture == "llama";
  for (const GgufFile::Tensor& tensor : file->tensors()) {
    refuse_known_extras(path, tensor.name);
    if (tensor.name == kRopeDivisors) continue;  // one of the hyper-parameters
    contents.tensors.emplace(tensor.name, StoredTensor{tensor.type, shape_of(tensor), tensor.data});
  }
  contents.files = {{path, file->bytes()}};
  contents.storage = std::move(file);
  return std::make_unique<NamedWeights>(std::move(contents));
}

}  // namespace dgap::engine
