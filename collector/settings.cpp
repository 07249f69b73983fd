#include "collector/settings.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace dgap::collector {

void check_context(const schemas::Config& config, std::int64_t context_length) {
  const std::vector<int>& contexts = config.corpus.context_lengths;
  const std::int64_t longest = *std::max_element(contexts.begin(), contexts.end());
  const std::int64_t consumed = longest + config.corpus.decode_steps - 1;
  if (consumed > context_length) {
    throw base::UsageError(
        "corpus.context_lengths, corpus.decode_steps: " + std::to_string(longest) + " + " +
        std::to_string(config.corpus.decode_steps) + " - 1 tokens are more than the model's " +
        std::to_string(context_length));
  }
  const schemas::RetrievalCorpusConfig& retrieval = config.corpus.retrieval;
  if (retrieval.prompts() > 0 && retrieval.context > context_length) {
    throw base::UsageError("corpus.retrieval.context: " + std::to_string(retrieval.context) +
                           " tokens are more than the model's " + std::to_string(context_length));
  }
}

std::int64_t real_vocabulary(std::int64_t tokenizer_vocabulary, std::int64_t model_vocabulary) {
  if (tokenizer_vocabulary > model_vocabulary) {
    throw base::UsageError("model.path: the tokenizer has " + std::to_string(tokenizer_vocabulary) +
                           " tokens and the model only " + std::to_string(model_vocabulary) +
                           " logits: they do not belong together");
  }
  return tokenizer_vocabulary;
}

BlockShape block_shape(const schemas::Config& config, std::int64_t vocab, std::int64_t width,
                       std::int64_t hidden_size) {
  BlockShape shape;
  shape.rows = std::min(config.decode.block, config.corpus.decode_steps);
  shape.width = width;
  shape.vocab = vocab;
  shape.hidden_size = hidden_size;
  shape.precisions = config.precisions.size();
  shape.top = static_cast<std::int32_t>(std::min<std::int64_t>(config.trace_top(), vocab));
  shape.alpha_max = config.trace.alpha_max;
  shape.full = config.trace.logits == "full";
  shape.hidden = config.trace.hidden;
  return shape;
}

}  // namespace dgap::collector
