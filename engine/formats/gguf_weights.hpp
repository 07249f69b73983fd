#pragma once
#include <memory>
#include <string>

#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Weights of a model in a GGUF file (architectures: gguf_parameters.hpp). Reads the metadata and
/// checks the tensor directory against it; errors as open_weights says.
std::unique_ptr<WeightSource> open_gguf_weights(const std::string& path);

}  // namespace dgap::engine
