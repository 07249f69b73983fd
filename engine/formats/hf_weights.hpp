#pragma once
#include <memory>
#include <string>

#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Weights of a model in a Hugging Face folder: config.json (hf_config.hpp), and safetensors. With
/// a model.safetensors.index.json, the files that it names, and every tensor where it says; other
/// safetensors files of the folder are noted and not read. Without one, all safetensors files of
/// the folder. Every tensor in one place only, IoError otherwise; further errors as open_weights
/// says.
std::unique_ptr<WeightSource> open_hf_weights(const std::string& folder);

}  // namespace dgap::engine
