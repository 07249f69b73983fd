#include "runtime/context.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace dgap::runtime {

Context::Context(std::int64_t vocab_size, std::int64_t capacity)
    : ids_(static_cast<std::size_t>(vocab_size)) {
  tokens_.reserve(static_cast<std::size_t>(capacity));
}

void Context::check(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size()) continue;
    throw base::UsageError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                           std::to_string(vocab_size()));
  }
  constexpr std::size_t kLongest = std::numeric_limits<std::int32_t>::max();
  if (ids.size() > kLongest - tokens_.size()) {
    throw base::UsageError("a context holds at most " + std::to_string(kLongest) + " tokens");
  }
}

void Context::begin(std::span<const std::int32_t> ids) {
  check(ids);
  while (!tokens_.empty()) pop();
  accept(ids);
}

void Context::accept(std::span<const std::int32_t> ids) {
  check(ids);
  if (tokens_.capacity() - tokens_.size() < ids.size()) {
    tokens_.reserve(std::max(tokens_.size() + ids.size(), 2 * tokens_.capacity()));
  }
  for (const std::int32_t id : ids) {
    Id& entry = ids_[id];
    tokens_.push_back({id, entry.last});
    entry = {length() - 1, entry.count + 1};
  }
}

void Context::pop() {
  const Token token = tokens_.back();
  tokens_.pop_back();
  ids_[token.id] = {token.previous, ids_[token.id].count - 1};
}

void Context::roll_back(std::int64_t count) {
  if (count < 0 || count > length()) {
    throw base::UsageError("cannot roll back " + std::to_string(count) + " tokens of " +
                           std::to_string(length()));
  }
  for (; count > 0; --count) pop();
}

}  // namespace dgap::runtime
