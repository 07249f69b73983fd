#include "collector/schedule.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/stop.hpp"
#include "collector/retrieval_passes.hpp"
#include "collector/sites.hpp"

namespace dgap::collector {
namespace {

constexpr const char* kSplits[] = {"train", "validation", "test"};

int sites_of(const schemas::SitesConfig& sites, std::string_view split) {
  return split == "train" ? sites.train : split == "validation" ? sites.validation : sites.test;
}

std::vector<ScheduledBook> measure(const schemas::CorpusConfig& corpus,
                                   std::vector<corpus::Book> books,
                                   const engine::Tokenizer& tokenizer, base::Progress& progress) {
  std::vector<ScheduledBook> measured(books.size());
  std::atomic<std::int64_t> trimmed{0};
  tbb::parallel_for(std::size_t{0}, books.size(), [&](std::size_t i) {
    base::throw_if_stop_requested();
    const corpus::BookText book = corpus::read_book(corpus, books[i]);
    const auto tokens = std::ssize(tokenizer.encode(book.text, parses_special(corpus)));
    measured[i] = {std::move(books[i]), tokens};
    measured[i].book.text_sha256 = base::sha256_hex(book.text);
    trimmed += book.trimmed;
  });
  if (trimmed > 0) {
    progress.info("a Project Gutenberg header or footer was left out of " +
                  std::to_string(trimmed) + " books");
  }
  return measured;
}

/// The same text under two names leaks from one split into another just as well.
void check_texts(const std::vector<ScheduledBook>& books, base::Progress& progress) {
  std::map<std::string, const corpus::Book*> seen;
  for (const ScheduledBook& book : books) {
    const auto [other, is_new] = seen.emplace(book.book.text_sha256, &book.book);
    if (is_new) continue;
    const std::string message =
        book.book.where() + ": has the same text as " + other->second->where();
    if (other->second->split != book.book.split)
      throw base::FailedError(message + "; a book belongs to one split");
    progress.warn(message);
  }
}

/// Cuts passes into parts; a part never holds two splits.
std::vector<Part> cut(const Schedule& schedule, std::int64_t steps_per_part) {
  std::vector<Part> parts;
  const auto split_of = [&](std::size_t pass) -> const std::string& {
    return schedule.books[schedule.passes[pass].book].book.split;
  };
  for (std::size_t i = 0; i < schedule.passes.size(); ++i) {
    const std::int64_t units = std::ssize(schedule.passes[i].contexts);
    const std::int64_t steps = units * schedule.passes[i].steps;
    const bool fits = !parts.empty() && parts.back().steps + steps <= steps_per_part &&
                      split_of(parts.back().first_pass) == split_of(i);
    if (!fits) parts.push_back({i, i});
    parts.back().end_pass = i + 1;
    parts.back().units += units;
    parts.back().steps += steps;
  }
  return parts;
}

void check_splits(const Schedule& schedule, const schemas::CorpusConfig& corpus,
                  std::int64_t needed) {
  for (const char* split : kSplits) {
    if (sites_of(corpus.sites_per_book, split) == 0) continue;
    std::int64_t books = 0, usable = 0, longest = 0;
    for (const ScheduledBook& book : schedule.books) {
      if (book.book.split != split) continue;
      ++books;
      usable += book.tokens >= needed;
      longest = std::max(longest, book.tokens);
    }
    if (usable > 0) continue;
    if (books == 0) {
      throw base::FailedError(std::string("split ") + split +
                              ": the corpus is too small to give it a text (corpus.shares)");
    }
    throw base::FailedError(
        std::string("split ") + split + ": all " + std::to_string(books) +
        " books are too short: the longest has " + std::to_string(longest) + " tokens, and " +
        std::to_string(needed) +
        " are needed (the longest of corpus.context_lengths and corpus.decode_steps)");
  }
}

/// A conversation is read from its beginning: once.
std::vector<std::int64_t> starts_in(const schemas::CorpusConfig& corpus, const ScheduledBook& book,
                                    std::int64_t needed) {
  if (corpus.layout == "chat") {
    return book.tokens < needed ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{0};
  }
  return site_starts(book.tokens, needed, corpus.front_matter,
                     sites_of(corpus.sites_per_book, book.book.split), corpus.decode_steps);
}

}  // namespace

bool parses_special(const schemas::CorpusConfig& corpus) {
  return corpus.special_tokens || corpus.layout == "chat";
}

Schedule make_schedule(const schemas::Config& config, const engine::Tokenizer& tokenizer,
                       base::Progress& progress) {
  const schemas::CorpusConfig& corpus = config.corpus;
  Schedule schedule;
  schedule.books = measure(corpus, corpus::list_books(corpus, progress), tokenizer, progress);
  check_texts(schedule.books, progress);
  const int longest =
      *std::max_element(corpus.context_lengths.begin(), corpus.context_lengths.end());
  const std::int64_t needed =
      std::int64_t{longest} + corpus.decode_steps - (tokenizer.bos() >= 0 ? 1 : 0);
  check_splits(schedule, corpus, needed);
  const std::vector<std::vector<int>> shared =
      share_passes(corpus.context_lengths, corpus.decode_steps);
  for (std::size_t i = 0; i < schedule.books.size(); ++i) {
    const ScheduledBook& book = schedule.books[i];
    const std::vector<std::int64_t> starts = starts_in(corpus, book, needed);
    schedule.skipped_books += starts.empty();
    for (const std::int64_t start : starts) {
      for (const std::vector<int>& contexts : shared) {
        schedule.passes.push_back({i, start, contexts, corpus.decode_steps, {}});
      }
    }
  }
  if (schedule.skipped_books > 0) {
    progress.warn(std::to_string(schedule.skipped_books) + " of " +
                  std::to_string(schedule.books.size()) + " books are shorter than the " +
                  std::to_string(needed) + " tokens of a site and are left out");
  }
  for (Pass& pass : retrieval_passes(config, schedule.books, tokenizer))
    schedule.passes.push_back(std::move(pass));
  schedule.parts = cut(schedule, std::int64_t{config.trace.units_per_part} * corpus.decode_steps);
  for (const Part& part : schedule.parts)
    schedule.units += part.units, schedule.steps += part.steps;
  return schedule;
}

std::vector<std::int32_t> tokens_of(const Pass& pass, std::span<const std::int32_t> book,
                                    std::int32_t bos) {
  std::vector<std::int32_t> tokens;
  const std::size_t count =
      static_cast<std::size_t>(pass.contexts.back()) + static_cast<std::size_t>(pass.steps);
  tokens.reserve(count);
  if (bos >= 0) tokens.push_back(bos);
  const auto text = book.subspan(static_cast<std::size_t>(pass.start), count - tokens.size());
  tokens.insert(tokens.end(), text.begin(), text.end());
  return tokens;
}

}  // namespace dgap::collector
