#include "collector/retrieval_passes.hpp"

#include <tbb/parallel_for.h>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/stop.hpp"
#include "corpus/prompt_maker.hpp"

namespace dgap::collector {
namespace {

/// A book of a split, with sentences.
struct Source {
  std::size_t book = 0;
  corpus::Haystack haystack;
};

std::vector<Source> sources_of(const schemas::CorpusConfig& corpus,
                               const std::vector<ScheduledBook>& books, const std::string& split,
                               const engine::Tokenizer& tokenizer) {
  std::vector<Source> sources;
  for (std::size_t i = 0; i < books.size(); ++i) {
    if (books[i].book.split == split) sources.push_back({i, {}});
  }
  tbb::parallel_for(std::size_t{0}, sources.size(), [&](std::size_t i) {
    base::throw_if_stop_requested();
    const corpus::BookText text = corpus::read_book(corpus, books[sources[i].book].book);
    sources[i].haystack = corpus::haystack_of(text.text, tokenizer);
  });
  std::erase_if(sources, [](const Source& source) { return source.haystack.sentences.empty(); });
  if (sources.empty()) {
    throw base::FailedError("corpus.retrieval." + split +
                            ": the texts of that split hold no "
                            "sentences to hide anything in");
  }
  return sources;
}

Pass pass_of(const Source& source, const corpus::Prompt& prompt) {
  Pass pass;
  pass.book = source.book;
  pass.contexts = {static_cast<int>(prompt.prompt.size())};
  pass.steps = static_cast<int>(prompt.answer.size());
  pass.kind = corpus::name_of(prompt.kind);
  pass.tokens = prompt.prompt;
  pass.tokens.insert(pass.tokens.end(), prompt.answer.begin(), prompt.answer.end());
  pass.text_sha256 = base::sha256_hex(prompt.text);
  return pass;
}

std::vector<Pass> passes_of(const schemas::Config& config, const std::string& split, int count,
                            const std::vector<ScheduledBook>& books,
                            const engine::Tokenizer& tokenizer) {
  if (count == 0) return {};
  const schemas::RetrievalCorpusConfig& retrieval = config.corpus.retrieval;
  const std::vector<Source> sources = sources_of(config.corpus, books, split, tokenizer);
  const corpus::PromptMaker maker(corpus::calibration_vocabulary(), tokenizer,
                                  config.corpus.chat_template);
  std::vector<Pass> passes(static_cast<std::size_t>(count));
  tbb::parallel_for(std::size_t{0}, passes.size(), [&](std::size_t i) {
    base::throw_if_stop_requested();
    base::Random random(config.run.seed, "retrieval/" + split + "/" + std::to_string(i));
    const corpus::Kind kind = corpus::kind_of(retrieval.kinds[i % retrieval.kinds.size()]);
    const Source& source = sources[i / retrieval.kinds.size() % sources.size()];
    passes[i] =
        pass_of(source, maker.make(kind, source.haystack,
                                   corpus::random_length(retrieval.context, random), random));
  });
  return passes;
}

}  // namespace

std::vector<Pass> retrieval_passes(const schemas::Config& config,
                                   const std::vector<ScheduledBook>& books,
                                   const engine::Tokenizer& tokenizer) {
  const schemas::RetrievalCorpusConfig& retrieval = config.corpus.retrieval;
  std::vector<Pass> passes = passes_of(config, "train", retrieval.train, books, tokenizer);
  for (Pass& pass : passes_of(config, "validation", retrieval.validation, books, tokenizer))
    passes.push_back(std::move(pass));
  return passes;
}

}  // namespace dgap::collector
