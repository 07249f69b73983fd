#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "corpus/prompt_maker.hpp"
#include "engine/model/decoder.hpp"
#include "schemas/config/config.hpp"
#include "schemas/trace/trace.hpp"

/// Retrieval beside perplexity: values hidden in held-out text and asked for at the end
/// (docs/prompts.md). The answer is teacher-forced, so that `exact` equals what greedy decoding
/// would give.
namespace dgap::evaluator {

/// Shares of cases with every answer token right, and of answer tokens that are right.
struct RetrievalScore {
  double exact = 0, token = 0;
};

struct TaskResult {
  std::int64_t cases = 0;
  std::int64_t context = 0;  // longest prompt, tokens
  RetrievalScore reference;
  struct Precision {
    RetrievalScore quantized, restored;
    RetrievalScore oracle;  // the reference's choice, where the window holds it
  };
  std::map<std::string, Precision> precisions;
};
using RetrievalResult = std::map<std::string, TaskResult>;  // by task

/// Prompts of the evaluation's vocabulary in the units' text, `config.cases` of each task.
std::vector<corpus::Prompt> retrieval_cases(const schemas::TracePart& text,
                                            const engine::Tokenizer& tokenizer,
                                            const schemas::RetrievalTasksConfig& config,
                                            const std::string& chat_template, std::uint64_t seed);

/// Runs the cases on the live model, every scheme over one exact prefix, restoring through the
/// public runtime library with the bundle in `bundle_directory`.
RetrievalResult retrieval(const engine::Decoder& decoder,
                          const std::vector<schemas::Scheme>& schemes,
                          const std::string& bundle_directory,
                          const std::vector<corpus::Prompt>& cases, base::Progress& progress);

}  // namespace dgap::evaluator
