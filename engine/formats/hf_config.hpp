#pragma once
#include <string>
#include <string_view>

#include "engine/model/weights.hpp"

namespace dgap::engine {

/// Hyper-parameters from the text of a Hugging Face config.json: LlamaForCausalLM,
/// MistralForCausalLM and Qwen2ForCausalLM. Every key is consumed, known to say nothing about
/// logits, or refused. UsageError for other architectures and for values that are not supported;
/// IoError for text that is not such a config. `path` is for messages.
HyperParameters read_hf_config(std::string_view text, const std::string& path);

}  // namespace dgap::engine
