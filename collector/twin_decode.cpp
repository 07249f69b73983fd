#include "collector/twin_decode.hpp"

#include <algorithm>

#include "base/stop.hpp"

namespace dgap::collector {
namespace {

/// A long prefix comes in pieces, so that a signal is heard.
constexpr std::int64_t kPrefillRows = 1024;

void prefill(engine::Sequence& sequence, std::span<const std::int32_t> tokens) {
  while (!tokens.empty()) {
    base::throw_if_stop_requested();
    const std::size_t rows = std::min<std::size_t>(kPrefillRows, tokens.size());
    sequence.append(tokens.first(rows), nullptr);
    tokens = tokens.subspan(rows);
  }
}

}  // namespace

void TwinDecode::run(std::span<const std::int32_t> tokens, std::span<const int> contexts,
                     PairedBlock& rows, Listener& listener) const {
  const bool keep_pre_rope =
      std::any_of(precisions.begin(), precisions.end(),
                  [](const schemas::Scheme& s) { return s.key_before_rope; });
  const auto reference = decoder.begin(static_cast<std::int64_t>(tokens.size()) - 1, keep_pre_rope);
  for (const int context : contexts) {
    const std::int64_t done = reference->length();
    prefill(*reference, tokens.subspan(done, context - 1 - done));
    run_unit(tokens, context, *reference, rows, listener);
  }
}

void TwinDecode::run_unit(std::span<const std::int32_t> tokens, int context,
                          engine::Sequence& reference, PairedBlock& rows,
                          Listener& listener) const {
  std::vector<std::unique_ptr<engine::Sequence>> forks;
  for (const schemas::Scheme& scheme : precisions)
    forks.push_back(reference.fork(scheme, context - 1));
  listener.begin_unit(context);
  for (int first = 0; first < steps; first += block) {
    base::throw_if_stop_requested();
    const int count = std::min(block, steps - first);
    const std::span<const std::int32_t> consumed = tokens.subspan(context - 1 + first, count);
    advance(reference, consumed, rows.reference());
    for (std::size_t p = 0; p < forks.size(); ++p) advance(*forks[p], consumed, rows.precision(p));
    listener.take_block(first, tokens.subspan(context + first, count));
  }
  std::vector<engine::CacheBytes> caches;
  for (const auto& fork : forks) caches.push_back(fork->cache_bytes());
  listener.end_unit(caches);
}

void TwinDecode::advance(engine::Sequence& sequence, std::span<const std::int32_t> tokens,
                         engine::LogitsSink& sink) const {
  if (stepwise) {
    sequence.append_stepwise(tokens, &sink);
  } else {
    sequence.append(tokens, &sink);
  }
}

}  // namespace dgap::collector
