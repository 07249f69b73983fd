#include "calibrator/allocation/cases.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "corpus/corpus.hpp"
#include "corpus/prompt_maker.hpp"

namespace dgap::calibrator {
namespace {

constexpr std::size_t kMostBooks = 8;  // read per split

/// A text of the split, as sentences and as tokens.
struct Source {
  corpus::Haystack haystack;
  std::vector<std::int32_t> tokens;
};

std::vector<Source> read_sources(const schemas::Config& config, const std::string& split,
                                 const engine::Tokenizer& tokenizer, base::Progress& progress) {
  std::vector<corpus::Book> books = corpus::list_books(config.corpus, progress);
  std::erase_if(books, [&](const corpus::Book& book) { return book.split != split; });
  const std::size_t count = std::min(kMostBooks, books.size());
  const bool special = config.corpus.special_tokens || config.corpus.layout == "chat";
  std::vector<Source> sources;
  for (std::size_t i = 0; i < count; ++i) {
    base::throw_if_stop_requested();
    const corpus::Book& book = books[i * books.size() / count];
    const std::string text = corpus::read_book(config.corpus, book).text;
    sources.push_back({corpus::haystack_of(text, tokenizer), tokenizer.encode(text, special)});
  }
  return sources;
}

std::vector<corpus::Kind> kinds_of(const schemas::RetrievalCorpusConfig& retrieval) {
  std::vector<corpus::Kind> kinds;
  for (const std::string& name : retrieval.kinds) {
    if (corpus::kind_of(name) != corpus::Kind::count) kinds.push_back(corpus::kind_of(name));
  }
  if (kinds.empty()) {
    throw base::UsageError("corpus.retrieval.kinds: an allocation needs a kind besides count");
  }
  return kinds;
}

Case site_case(const std::vector<std::int32_t>& text, const schemas::AllocationConfig& a,
               std::int32_t bos, std::int64_t front_matter, base::Random& random) {
  Case site;
  if (bos >= 0) site.tokens.push_back(bos);
  site.prefix = a.context - 1;
  const std::int64_t needed = std::int64_t{a.context} + a.steps - std::ssize(site.tokens);
  const std::int64_t last = std::ssize(text) - needed, first = std::min(front_matter, last);
  const auto start =
      first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last - first) + 1));
  site.tokens.insert(site.tokens.end(), text.begin() + start, text.begin() + start + needed);
  return site;
}

}  // namespace

std::vector<Case> make_cases(const schemas::Config& config, const std::string& split, int prompts,
                             const engine::Tokenizer& tokenizer, base::Progress& progress) {
  const schemas::AllocationConfig& a = config.allocation;
  std::vector<Source> sources = read_sources(config, split, tokenizer, progress);
  std::erase_if(sources, [&](const Source& source) {
    return std::ssize(source.tokens) < a.context + a.steps || source.haystack.sentences.empty();
  });
  if (sources.empty()) {
    throw base::FailedError("allocation: no text of the split " + split + " has the " +
                            std::to_string(a.context + a.steps) +
                            " tokens of a site (allocation.context and allocation.steps)");
  }
  const std::vector<corpus::Kind> kinds = kinds_of(config.corpus.retrieval);
  const corpus::PromptMaker maker(corpus::calibration_vocabulary(), tokenizer,
                                  config.corpus.chat_template);
  std::vector<Case> cases;
  for (int i = 0; i < prompts; ++i) {
    base::Random random(config.run.seed, "allocate/" + split + "/prompt/" + std::to_string(i));
    const Source& source = sources[static_cast<std::size_t>(i) % sources.size()];
    const corpus::Prompt one =
        maker.make(kinds[static_cast<std::size_t>(i) % kinds.size()], source.haystack,
                   corpus::random_length(a.context, random), random);
    Case& prompt = cases.emplace_back();
    prompt.prompt = true;
    prompt.prefix = std::ssize(one.prompt) - 1;
    prompt.tokens = one.prompt;
    prompt.tokens.insert(prompt.tokens.end(), one.answer.begin(), one.answer.end());
  }
  for (int i = 0; i < a.sites; ++i) {
    base::Random random(config.run.seed, "allocate/" + split + "/site/" + std::to_string(i));
    const Source& source = sources[static_cast<std::size_t>(i) % sources.size()];
    cases.push_back(
        site_case(source.tokens, a, tokenizer.bos(), config.corpus.front_matter, random));
  }
  return cases;
}

}  // namespace dgap::calibrator
