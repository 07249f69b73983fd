#include <string>

#include "base/error.hpp"
#include "base/random.hpp"
#include "evaluator/retrieval.hpp"

namespace dgap::evaluator {
namespace {

std::string unit_text(const schemas::TracePart& text, const schemas::TraceUnit& unit,
                      const engine::Tokenizer& tokenizer) {
  const auto first = text.tokens.begin() + unit.first_token;
  std::vector<std::int32_t> ids(first, first + unit.context + unit.steps);
  if (tokenizer.bos() >= 0 && !ids.empty() && ids.front() == tokenizer.bos())
    ids.erase(ids.begin());
  return tokenizer.decode(ids);
}

}  // namespace

std::vector<corpus::Prompt> retrieval_cases(const schemas::TracePart& text,
                                            const engine::Tokenizer& tokenizer,
                                            const schemas::RetrievalTasksConfig& config,
                                            const std::string& chat_template, std::uint64_t seed) {
  if (text.units.empty()) throw base::FailedError("retrieval: the held-out traces hold no text");
  const corpus::PromptMaker maker(corpus::evaluation_vocabulary(), tokenizer, chat_template);
  std::vector<corpus::Prompt> cases;
  for (const std::string& task : config.tasks) {
    for (int i = 0; i < config.cases; ++i) {
      base::Random random(seed, "evaluate/" + task + "/" + std::to_string(i));
      const schemas::TraceUnit& unit = text.units[random.below(text.units.size())];
      const corpus::Haystack haystack =
          corpus::haystack_of(unit_text(text, unit, tokenizer), tokenizer);
      cases.push_back(maker.make(corpus::kind_of(task), haystack, config.context, random));
    }
  }
  return cases;
}

}  // namespace dgap::evaluator
