#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgap::engine {

/// Text to token ids and back. Thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;
  /// Ids of `text` (valid UTF-8, else IoError with the byte offset), without BOS or EOS. With
  /// `parse_special`, the texts of special tokens become those tokens (chat prompts); without it
  /// they are plain text (books). Tokens that were added to a vocabulary without being special are
  /// found in either case, as in the training of the models that have them.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           bool parse_special = false) const = 0;
  /// Bytes of the ids: inverse of encode, up to the tokenizer's own normalisation (Unicode NFC; a
  /// space that takes the place of U+2581). Halves of characters come out as they are. UsageError
  /// for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// Bytes of ids that continue others: after decode of those, they make decode of all. They differ
  /// from decode where that drops the space which encode puts in front of a text.
  virtual std::string decode_next(std::span<const std::int32_t> ids) const { return decode(ids); }
  /// Id that the model wants in front of every sequence, -1 for none.
  virtual std::int32_t bos() const = 0;
  virtual std::int32_t eos() const = 0;
  /// SHA-256 over everything that ids depend on.
  virtual std::string sha256() const = 0;
};

/// The tokenizer of a model file or folder. IoError / UsageError naming what is wrong or unknown.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& model_path, const std::string& format);

}  // namespace dgap::engine
