#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/piece_scanner.hpp"
#include "engine/tokenizer/split_step.hpp"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace dgap::engine {

/// Splits text into the pieces that byte-pair encoding works on, one after the other. Immutable;
/// PieceCursor holds what a thread needs.
class PreTokenizer {
 public:
  /// UsageError for a pattern that is not supported, not valid or can match nothing at all.
  explicit PreTokenizer(const std::vector<SplitStep>& steps);

 private:
  friend class PieceCursor;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct Step {
    std::unique_ptr<pcre2_real_code_8, Free> code;  // none: the step makes no cuts
    PieceScanner scanner = nullptr;  // finds most pieces faster than `code`; may be absent
    SplitStep::Behavior behavior = SplitStep::Behavior::isolated;
    bool invert = false, prefix_space = false;
  };
  static Step compile(const SplitStep& step);

  std::vector<Step> steps_;
};

/// Walks over the pieces of texts, which are never empty. Unless a step removes text or adds a
/// space, they cover a text without gaps, in order.
class PieceCursor {
 public:
  explicit PieceCursor(const PreTokenizer& pretokenizer);

  /// `text` is valid UTF-8 and outlives the walk.
  void start(std::string_view text);
  /// The next piece, valid until the next call; empty at the end. FailedError where a pattern
  /// exceeds the matcher's limits.
  std::string_view next();

 private:
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
  };
  struct Segment {
    std::string_view text;
    bool matched = false;
  };
  /// The walk of one step over one piece of the step before it.
  class Level {
   public:
    explicit Level(const PreTokenizer::Step& step);
    void start(std::string_view text);
    std::string_view next();

   private:
    Segment next_segment();
    Segment peek();
    void match();
    std::string_view take(std::size_t end);
    /// `first` and `second` (right after it) as one.
    std::string_view joined(const Segment& first, const Segment& second) const;

    const PreTokenizer::Step* step_;
    std::unique_ptr<pcre2_real_match_data_8, Free> match_;
    std::string prefixed_;
    std::string_view text_;
    std::size_t at_ = 0;           // begin of the next segment
    std::size_t match_begin_ = 0;  // next match of the pattern, found already: [begin, end)
    std::size_t match_end_ = 0;
    Segment peeked_;  // empty: none
  };
  std::string_view next_of(std::size_t level);

  std::vector<Level> levels_;
  std::string_view whole_;  // what start was given, until level 0 took it
};

}  // namespace dgap::engine
