#include "collector/twin_decode.hpp"

#include <algorithm>
#include <memory>

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
  bool keep_pre_rope = false;
  std::vector<std::unique_ptr<engine::Sequence>> own(precisions.size());
  for (std::size_t p = 0; p < precisions.size(); ++p) {
    if (precisions[p].prefill == schemas::PrefillMode::quantized)
      own[p] = decoder.begin_quantized(precisions[p]);
    else
      keep_pre_rope |= precisions[p].key_before_rope;
  }
  const auto reference = decoder.begin(static_cast<std::int64_t>(tokens.size()) - 1, keep_pre_rope);
  for (const int context : contexts) {
    const std::int64_t done = reference->length();
    const auto prefix = tokens.subspan(done, context - 1 - done);
    prefill(*reference, prefix);
    std::vector<std::unique_ptr<engine::Sequence>> forks;
    Decodes decodes;
    for (std::size_t p = 0; p < precisions.size(); ++p) {
      if (own[p] != nullptr)
        prefill(*own[p], prefix);
      else
        forks.push_back(reference->fork(precisions[p], context - 1));
      decodes.push_back(own[p] != nullptr ? own[p].get() : forks.back().get());
    }
    run_unit(tokens, context, *reference, decodes, rows, listener);
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
