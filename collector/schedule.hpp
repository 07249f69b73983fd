#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "collector/corpus.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"

/// What is decoded, in which order, and how it is cut into parts: fixed by configuration, corpus
/// and tokenizer alone.
namespace dgap::collector {

struct ScheduledBook {
  Book book;                // its text_sha256 is known
  std::int64_t tokens = 0;  // without BOS
};

/// Sites of one book that share a start and one growing reference decode: a unit per context.
struct Pass {
  std::size_t book = 0;    // in Schedule::books
  std::int64_t start = 0;  // first token of the prefix in the book, BOS not counted
  std::vector<int> contexts;
};

/// Consecutive passes of one split: as many whole ones as fit into trace.units_per_part, at least
/// one.
struct Part {
  std::size_t first_pass = 0, end_pass = 0;
  std::int64_t units = 0;
};

struct Schedule {
  std::vector<ScheduledBook> books;
  std::vector<Pass> passes;  // by split (train, validation, test), book and site
  std::vector<Part> parts;
  std::int64_t skipped_books = 0;  // too short for the longest context
  std::int64_t units = 0;
};

/// Reads and tokenises every book once, in parallel. FailedError when a split has no book that is
/// long enough, or two splits share a text; and what list_books and read_book throw.
Schedule make_schedule(const schemas::Config& config, const engine::Tokenizer& tokenizer,
                       base::Progress& progress);

/// Whether the texts of special tokens become those tokens.
bool parses_special(const schemas::CorpusConfig& corpus);

/// Ids of a pass: BOS where the model wants one, the prefix of its longest context, and the
/// targets.
std::vector<std::int32_t> tokens_of(const Pass& pass, std::span<const std::int32_t> book,
                                    std::int32_t bos, int steps);

}  // namespace dgap::collector
