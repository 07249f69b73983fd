#include "collector/twin_decode.hpp"

#include <algorithm>
#include <memory>

#include "base/stop.hpp"

namespace dgap::collector {
namespace {

/// A long prefix comes in pieces, so that a signal is heard.
constexpr std::int64_t kPrefillRows = 1024;

/// Takes the sequence to the first `length` tokens.
void prefill(engine::Sequence& sequence, std::span<const std::int32_t> tokens, int length) {
  while (sequence.length() < length) {
    base::throw_if_stop_requested();
    const std::int64_t rows = std::min(kPrefillRows, length - sequence.length());
    sequence.append(tokens.subspan(sequence.length(), rows), nullptr);
  }
}

bool has_own_prefill(const schemas::Scheme& scheme) {
  return scheme.prefill == schemas::PrefillMode::quantized;
}

}  // namespace

void TwinDecode::run(std::span<const std::int32_t> tokens, std::span<const int> contexts,
                     PairedBlock& rows, Listener& listener) const {
  const bool keep_pre_rope = std::ranges::any_of(precisions, [](const schemas::Scheme& scheme) {
    return !has_own_prefill(scheme) && scheme.key_before_rope;
  });
  const auto exact = decoder.begin(static_cast<std::int64_t>(tokens.size()) - 1, keep_pre_rope);
  for (std::size_t first = 0; first < precisions.size(); first += at_once) {
    const std::size_t count = std::min(at_once, precisions.size() - first);
    listener.begin_group({first, count});
    run_group(tokens, contexts, precisions.subspan(first, count), *exact, rows, listener);
  }
}

void TwinDecode::run_group(std::span<const std::int32_t> tokens, std::span<const int> contexts,
                           std::span<const schemas::Scheme> group, engine::Sequence& exact,
                           PairedBlock& rows, Listener& listener) const {
  std::vector<std::unique_ptr<engine::Sequence>> own(group.size());
  for (std::size_t p = 0; p < group.size(); ++p)
    if (has_own_prefill(group[p])) own[p] = decoder.begin_quantized(group[p]);
  for (const int context : contexts) {
    const int length = context - 1;
    std::unique_ptr<engine::Sequence> again;  // the reference, where a group before has passed here
    if (exact.length() > length) again = exact.fork(schemas::preset("exact"), length);
    prefill(exact, tokens, length);
    std::vector<std::unique_ptr<engine::Sequence>> forks;
    Decodes decodes;
    for (std::size_t p = 0; p < group.size(); ++p) {
      if (own[p] != nullptr)
        prefill(*own[p], tokens, length);
      else
        forks.push_back(exact.fork(group[p], length));
      decodes.push_back(own[p] != nullptr ? own[p].get() : forks.back().get());
    }
    run_unit(tokens, context, again != nullptr ? *again : exact, decodes, rows, listener);
  }
}

void TwinDecode::run_unit(std::span<const std::int32_t> tokens, int context,
                          engine::Sequence& reference, const Decodes& decodes, PairedBlock& rows,
                          Listener& listener) const {
  listener.begin_unit(context);
  for (int first = 0; first < steps; first += block) {
    base::throw_if_stop_requested();
    const int count = std::min(block, steps - first);
    const std::span<const std::int32_t> consumed = tokens.subspan(context - 1 + first, count);
    advance(reference, consumed, rows.reference());
    for (std::size_t p = 0; p < decodes.size(); ++p)
      advance(*decodes[p], consumed, rows.precision(p));
    listener.take_block(first, tokens.subspan(context + first, count));
  }
  std::vector<engine::CacheBytes> caches;
  for (const engine::Sequence* decode : decodes) caches.push_back(decode->cache_bytes());
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
