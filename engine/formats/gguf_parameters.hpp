#pragma once
#include <string_view>

#include "engine/formats/gguf_file.hpp"
#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Tensor that holds a factor for each RoPE frequency (Llama 3.1 and later).
inline constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

/// Hyper-parameters of a `llama` (Llama and Mistral) or `qwen2` model from a GGUF file's metadata;
/// vocab_size, tied_embeddings and biases from its tensor directory. UsageError for other
/// architectures and for every key of the architecture that would change what the model computes
/// and is not implemented, naming key and value; IoError for missing or contradictory values.
HyperParameters read_gguf_parameters(const GgufFile& file);

}  // namespace dgap::engine
