#pragma once
#include <vector>

#include "collector/schedule.hpp"

namespace dgap::collector {

/// The prompts of corpus.retrieval, train before validation: kinds take turns, and so do the books
/// of the split whose sentences they are hidden in. Their length is random between half and all of
/// corpus.retrieval.context. FailedError where a split has no sentences.
std::vector<Pass> retrieval_passes(const schemas::Config& config,
                                   const std::vector<ScheduledBook>& books,
                                   const engine::Tokenizer& tokenizer);

}  // namespace dgap::collector
