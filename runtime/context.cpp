#include "runtime/context.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace dgap::runtime {

namespace {

constexpr std::size_t kLongest = std::numeric_limits<std::int32_t>::max();

void check_length(std::size_t tokens) {
  if (tokens <= kLongest) return;
  throw base::UsageError("a context holds at most " + std::to_string(kLongest) + " tokens, not " +
                         std::to_string(tokens));
}

}  // namespace

Context::Context(std::int64_t vocab_size, std::int64_t capacity)
    : ids_(static_cast<std::size_t>(vocab_size)) {
  check_length(static_cast<std::size_t>(capacity));
  tokens_.reserve(static_cast<std::size_t>(capacity));
}

// All that can fail, before anything changes.
void Context::prepare(std::size_t held, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size()) continue;
    throw base::UsageError("token id " + std::to_string(id) + " is outside the vocabulary of " +
                           std::to_string(vocab_size()));
  }
  check_length(held + ids.size());
  if (held + ids.size() > tokens_.capacity()) {
    tokens_.reserve(std::max(held + ids.size(), 2 * tokens_.capacity()));
  }
}

void Context::begin(std::span<const std::int32_t> ids) {
  prepare(0, ids);
  while (!tokens_.empty()) pop();
  append(ids);
}

void Context::accept(std::span<const std::int32_t> ids) {
  prepare(tokens_.size(), ids);
  append(ids);
}

void Context::append(std::span<const std::int32_t> ids) {
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
