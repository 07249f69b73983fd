#pragma once
#include "engine/formats/gguf_file.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Hyper-parameters of a `llama` model from a GGUF file's metadata; vocab_size and tied_embeddings
/// from its tensor directory. UsageError for other architectures and for every `llama.*` key that
/// would change what the model computes and is not implemented, naming key and value; IoError for
/// missing or contradictory values.
HyperParameters read_llama_parameters(const GgufFile& file);

}  // namespace dgap::engine
