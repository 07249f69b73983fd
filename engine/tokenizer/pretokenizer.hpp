#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace dgap::engine {

/// Splits text into the pieces that byte-pair encoding works on, one after the other. Which pattern
/// a vocabulary was trained with is told by its tag (GGUF's `tokenizer.ggml.pre`); a wrong one
/// changes ids silently, so unknown tags are a UsageError. Immutable; PieceCursor holds what a
/// thread needs.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::string_view tag);

  /// A piece that is a token as a whole becomes that token, even where merges do not lead to it
  /// (`ignore_merges` of Hugging Face's tokenizers).
  bool whole_pieces_first() const { return whole_pieces_first_; }
  /// Whether the vocabularies with this tag want BOS, unless their file says otherwise.
  bool adds_bos() const { return adds_bos_; }

 private:
  friend class PieceCursor;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool whole_pieces_first_ = false;
  bool adds_bos_ = false;
};

/// Walks over the pieces of texts. They cover a text without gaps, in order, and are never empty.
class PieceCursor {
 public:
  explicit PieceCursor(const PreTokenizer& pretokenizer);

  /// `text` is valid UTF-8 and outlives the walk.
  void start(std::string_view text);
  /// The next piece; empty at the end.
  std::string_view next();

 private:
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
  };
  const pcre2_real_code_8* code_;
  std::unique_ptr<pcre2_real_match_data_8, Free> match_;
  std::string_view text_;
  std::size_t at_ = 0;           // begin of the next piece
  std::size_t match_begin_ = 0;  // next match of the pattern, found already: [begin, end)
  std::size_t match_end_ = 0;
};

}  // namespace dgap::engine
