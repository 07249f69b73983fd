#pragma once
#include <cstdint>

#include "collector/paired_block.hpp"
#include "schemas/config/config.hpp"

/// What a configuration means for a collection.
namespace dgap::collector {

/// UsageError when prefix and targets do not fit into the model's context.
void check_context(const schemas::Config& config, std::int64_t context_length);

/// Width of the distributions: the tokenizer's vocabulary; rows of the output matrix beyond it are
/// padding. UsageError when the model has fewer.
std::int64_t real_vocabulary(std::int64_t tokenizer_vocabulary, std::int64_t model_vocabulary);

/// Of a block of all precisions.
BlockShape block_shape(const schemas::Config& config, std::int64_t vocab, std::int64_t width,
                       std::int64_t hidden_size);

}  // namespace dgap::collector
