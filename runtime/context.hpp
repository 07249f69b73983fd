#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dgap::runtime {

/// The token ids of one sequence so far, indexed for the context features: every token knows where
/// it stood before, every id where it stands last and how often. Ids are accepted and rolled back
/// in constant time, so a sequence may be as long as memory allows. Memory: 8 bytes per token and 8
/// per vocabulary entry.
class Context {
 public:
  /// `capacity` tokens fit without another allocation; UsageError for more than 2^31 - 1.
  explicit Context(std::int64_t vocab_size, std::int64_t capacity = 0);

  /// Forgets everything and begins with `ids`, a prompt. UsageError, and nothing changed, for an id
  /// outside the vocabulary; so does accept().
  void begin(std::span<const std::int32_t> ids);
  void accept(std::span<const std::int32_t> ids);
  /// Takes back the last `count` tokens, as if they had never been accepted. UsageError, and
  /// nothing changed, where there are fewer.
  void roll_back(std::int64_t count);

  std::int64_t vocab_size() const { return static_cast<std::int64_t>(ids_.size()); }
  std::int32_t length() const { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t token(std::int32_t position) const { return tokens_[position].id; }
  /// The position before `position` that holds the same id; -1: none.
  std::int32_t previous(std::int32_t position) const { return tokens_[position].previous; }
  /// The last position that holds `id`; -1: none.
  std::int32_t last(std::int32_t id) const { return ids_[id].last; }
  /// How often `id` occurs.
  std::int32_t count(std::int32_t id) const { return ids_[id].count; }

 private:
  struct Token {
    std::int32_t id, previous;
  };
  struct Id {
    std::int32_t last = -1, count = 0;
  };
  void prepare(std::size_t held, std::span<const std::int32_t> ids);
  void append(std::span<const std::int32_t> ids);
  void pop();

  std::vector<Token> tokens_;
  std::vector<Id> ids_;  // [vocab_size]
};

}  // namespace dgap::runtime
