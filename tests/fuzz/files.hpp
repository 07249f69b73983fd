#pragma once

/// Files of the folders that inputs hold, in order (folder.hpp).
namespace dgap::fuzz {

inline constexpr const char* kHuggingFaceFiles[] = {
    "config.json",     "model.safetensors.index.json",
    "tokenizer.json",  "tokenizer_config.json",
    "tokenizer.model", "model.safetensors"};
inline constexpr const char* kBundleFiles[] = {"manifest.json", "weights.safetensors"};

}  // namespace dgap::fuzz
