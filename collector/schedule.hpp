#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "corpus/corpus.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "schemas/config/config.hpp"

/// What is decoded, in which order, and how it is cut into parts: fixed by configuration, corpus
/// and tokenizer alone.
namespace dgap::collector {

struct ScheduledBook {
  corpus::Book book;        // its text_sha256 is known
  std::int64_t tokens = 0;  // without BOS
};

/// Sites of one book that share a start and one growing reference decode: a unit per context. Or a
/// retrieval prompt, hidden in sentences of the book: one unit, whose steps are the answer.
struct Pass {
  std::size_t book = 0;    // in Schedule::books
  std::int64_t start = 0;  // first token of the prefix in the book, BOS not counted
  std::vector<int> contexts;
  int steps = 0;                          // of each unit
  std::string_view kind;                  // of a retrieval prompt; empty: text of the book
  std::vector<std::int32_t> tokens = {};  // of a prompt with its answer
  std::string text_sha256 = {};           // of a prompt's text
};

/// Consecutive passes of one split: as many whole ones as have no more steps than
/// trace.units_per_part units of book text, at least one.
struct Part {
  std::size_t first_pass = 0, end_pass = 0;
  std::int64_t units = 0, steps = 0;
};

struct Schedule {
  std::vector<ScheduledBook> books;
  std::vector<Pass> passes;  // by split (train, validation, test), book and site; then prompts
  std::vector<Part> parts;
  std::int64_t skipped_books = 0;  // too short for the longest context
  std::int64_t units = 0, steps = 0;
};

/// The SHA-256 of the text that a pass decodes: its prompt's or its book's.
inline const std::string& text_of(const ScheduledBook& book, const Pass& pass) {
  return pass.kind.empty() ? book.book.text_sha256 : pass.text_sha256;
}

/// Reads and tokenises every book once, in parallel. FailedError when a split has no book that is
/// long enough, or two splits share a text; and what list_books and read_book throw.
Schedule make_schedule(const schemas::Config& config, const engine::Tokenizer& tokenizer,
                       base::Progress& progress);

/// Whether the texts of special tokens become those tokens.
bool parses_special(const schemas::CorpusConfig& corpus);

/// Ids of a pass over the book's text: BOS where the model wants one, the prefix of its longest
/// context, and the targets.
std::vector<std::int32_t> tokens_of(const Pass& pass, std::span<const std::int32_t> book,
                                    std::int32_t bos);

}  // namespace dgap::collector
