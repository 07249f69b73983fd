#include "runtime/context_features.hpp"

#include <algorithm>
#include <bit>

#include "base/log.hpp"

namespace dgap::runtime {
namespace {

/// Recency of what never happened: further away than 64K tokens.
constexpr float kNever = -12.0f;
/// Of the largest key score: how large another place's must be to be as good.
constexpr float kAsGood = 0.9f;
/// .8^n, n tokens before the predecessor.
constexpr float kNearness[] = {1.0f, 0.8f, 0.64f, 0.512f, 0.4096f, 0.32768f, 0.262144f, 0.2097152f};

float log_of(std::int32_t n) { return static_cast<float>(base::log_f64(n)); }
float log1p_of(std::int32_t n) { return n == 0 ? 0.0f : log_of(n + 1); }
float share(std::int32_t part, std::int32_t whole) {
  return static_cast<float>(part) / static_cast<float>(std::max(whole, 1));
}

/// How the text up to `predecessor` resembles the text up to the last token.
struct Resemblance {
  int suffix = 0;      // equal tokens until the first that differs
  float fuzzy = 0.0f;  // sum of nearness over equal tokens, aligned
};
Resemblance resemblance(const Context& context, std::int32_t predecessor, int longest) {
  const std::int32_t end = context.length() - 1;
  const int depth = std::min(longest, predecessor + 1);
  Resemblance result;
  bool unbroken = true;
  for (int n = 0; n < depth; ++n) {
    const bool equal = context.token(predecessor - n) == context.token(end - n);
    unbroken = unbroken && equal;
    result.suffix += unbroken ? 1 : 0;
    result.fuzzy += equal ? kNearness[n] : 0.0f;
  }
  return result;
}

}  // namespace

ContextFeatures::ContextFeatures(int window)
    : slots_(std::bit_ceil(4 * static_cast<std::size_t>(window))),
      evidence_(static_cast<std::size_t>(window)) {}

void ContextFeatures::assign_slots(std::span<const std::int32_t> ids) {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::size_t at = (static_cast<std::uint32_t>(ids[i]) * 0x9e3779b1u >> 8) & mask;
    while (slots_[at].id >= 0) at = (at + 1) & mask;
    slots_[at] = {ids[i], static_cast<std::int32_t>(i)};
  }
}

std::int32_t ContextFeatures::candidate_of(std::int32_t id) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (static_cast<std::uint32_t>(id) * 0x9e3779b1u >> 8) & mask;
  while (slots_[at].id >= 0 && slots_[at].id != id) at = (at + 1) & mask;
  return slots_[at].candidate;
}

/// Inverse frequency of each of the last tokens in this very text: log((n + 1) / count).
void ContextFeatures::weigh_recent_tokens(const Context& context) {
  const std::int32_t n = context.length(), first = std::max(0, n - kRecent);
  for (std::int32_t at = first; at < n; ++at) {
    const double count = context.count(context.token(at));
    weights_[at - first] = static_cast<float>(base::log_f64((n + 1) / count));
  }
}

/// Weights of the recent tokens among the kAround tokens up to `predecessor`; 0 where that is
/// itself recent. A token is recent where it stands last, so it is counted once per place here.
float ContextFeatures::overlap(const Context& context, std::int32_t predecessor) const {
  const std::int32_t first = context.length() - kRecent;
  if (predecessor >= first) return 0.0f;
  float sum = 0.0f;
  for (std::int32_t at = std::max(0, predecessor - kAround + 1); at <= predecessor; ++at) {
    const std::int32_t last = context.last(context.token(at));
    if (last >= first) sum += weights_[last - first];
  }
  return sum;
}

/// Whether what stands around `place` came again among the last tokens: kCopied tokens in a row.
bool ContextFeatures::copied(const Context& context, std::int32_t place) const {
  const std::int32_t n = context.length(), first = std::max(n - kRecent, place + 1);
  const auto equal = [&](std::int32_t a, std::int32_t b) {
    return context.token(a) == context.token(b);
  };
  for (std::int32_t at = context.last(context.token(place)); at >= first;
       at = context.previous(at)) {
    int run = 1;
    for (int m = 1; m < kCopied && m <= place && equal(place - m, at - m); ++m) ++run;
    for (int m = 1; m < kCopied && at + m < n && equal(place + m, at + m); ++m) ++run;
    if (run >= kCopied) return true;
  }
  return false;
}

/// Earlier places of the last token: what followed there, if it is a candidate.
void ContextFeatures::walk_last_token(const Context& context) {
  std::int32_t at = context.previous(context.length() - 1);
  for (int left = kLongestWalk; at >= 0 && left > 0; at = context.previous(at), --left) {
    const Resemblance here = resemblance(context, at, kSuffix);
    for (int m = 0; m < kMatchLengths; ++m) totals_[m] += here.suffix >= kMatches[m] ? 1 : 0;
    longest_ = std::max(longest_, here.suffix);
    const std::int32_t candidate = candidate_of(context.token(at + 1));
    if (candidate < 0) continue;
    Evidence& evidence = evidence_[candidate];
    for (int m = 0; m < kMatchLengths; ++m) {
      evidence.matches[m] += here.suffix >= kMatches[m] ? 1 : 0;
    }
    evidence.bigram = std::max(evidence.bigram, at + 1);
    evidence.longest = std::max(evidence.longest, here.suffix);
    evidence.fuzzy = std::max(evidence.fuzzy, here.fuzzy);
    const float key = overlap(context, at);
    for (int gate = 0; gate <= std::min(here.suffix, kGates); ++gate) {
      evidence.key[gate] = std::max(evidence.key[gate], key);
    }
    if (key > evidence.fresh[1] && !copied(context, at + 1)) {
      evidence.fresh[1] = key;
      evidence.fresh[0] = std::max(evidence.fresh[0], key);
    }
  }
}

/// Earlier places of the candidate after another token than the last one.
void ContextFeatures::walk_candidate(const Context& context, std::int32_t id,
                                     Evidence& evidence) const {
  const std::int32_t end = context.token(context.length() - 1);
  std::int32_t at = context.last(id);
  for (int left = kLongestCandidateWalk; at > 0 && left > 0; at = context.previous(at), --left) {
    if (context.token(at - 1) == end) continue;
    evidence.fuzzy = std::max(evidence.fuzzy, resemblance(context, at - 1, kSuffix).fuzzy);
    const float key = overlap(context, at - 1);
    evidence.key[0] = std::max(evidence.key[0], key);
    if (key > evidence.fresh[0] && !copied(context, at)) evidence.fresh[0] = key;
  }
}

/// The first place of a candidate that is not copied yet and has a key score of at least `least`;
/// with gate 1 it follows the last token. The text's length: there is none.
std::int32_t ContextFeatures::first_fresh(const Context& context, std::int32_t id, int gate,
                                          float least) const {
  const std::int32_t end = context.token(context.length() - 1);
  std::int32_t found = context.length(), at = context.last(id);
  for (int left = kLongestCandidateWalk; at > 0 && left > 0; at = context.previous(at), --left) {
    if (gate == 1 && context.token(at - 1) != end) continue;
    if (overlap(context, at - 1) >= least && !copied(context, at)) found = at;
  }
  return found;
}

/// Among places whose key scores are as good as the best, a list is read in the text's order.
void ContextFeatures::find_first(const Context& context, std::span<const std::int32_t> ids) {
  for (int gate = 0; gate < 2; ++gate) {
    freshest_[gate] = 0.0f;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      freshest_[gate] = std::max(freshest_[gate], evidence_[i].fresh[gate]);
    }
    const float least = kAsGood * freshest_[gate];
    first_[gate] = -1;
    std::int32_t first = context.length();
    for (std::size_t i = 0; least > 0.0f && i < ids.size(); ++i) {
      if (evidence_[i].fresh[gate] < least) continue;
      const std::int32_t place = first_fresh(context, ids[i], gate, least);
      if (place >= first) continue;
      first = place;
      first_[gate] = static_cast<int>(i);
    }
  }
}

void ContextFeatures::write(const Context& context, std::span<const std::int32_t> ids, float* out,
                            std::int64_t stride) const {
  float fuzzy = 0.0f, scale = 0.0f, best[2] = {};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    fuzzy = std::max(fuzzy, evidence_[i].fuzzy);
    scale = std::max(scale, evidence_[i].key[0]);
    for (int gate = 0; gate < 2; ++gate) {
      best[gate] = std::max(best[gate], evidence_[i].key[gate + 1]);
    }
  }
  const float unit = scale > 0.0f ? 1.0f / scale : 0.0f;
  const float key_scale = static_cast<float>(base::log_f64(1.0 + static_cast<double>(scale)));
  const std::int32_t n = context.length();
  const auto recency = [&](std::int32_t position) {
    return position < 0 ? kNever : -log_of(n - position);
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Evidence& e = evidence_[i];
    float* x = out + static_cast<std::int64_t>(i) * stride;
    *x++ = log1p_of(context.count(ids[i]));
    *x++ = recency(context.last(ids[i]));
    for (int m = 0; m < kMatchLengths; ++m) {
      *x++ = log1p_of(e.matches[m]);
      *x++ = share(e.matches[m], totals_[m]);
    }
    for (int m = 0; m < 3; ++m) *x++ = log1p_of(totals_[m]);
    *x++ = recency(e.bigram);
    *x++ = static_cast<float>(e.longest) / kSuffix;
    *x++ = static_cast<float>(e.longest - longest_) / kSuffix;
    *x++ = e.fuzzy;
    *x++ = e.fuzzy - fuzzy;
    for (int gate = 0; gate <= kGates; ++gate) *x++ = e.key[gate] * unit;
    for (int gate = 0; gate < 2; ++gate) *x++ = (e.key[gate + 1] - best[gate]) * unit;
    *x++ = key_scale;
    for (const float fresh : e.fresh) *x++ = fresh * unit;
    for (int gate = 0; gate < 2; ++gate) *x++ = (e.fresh[gate] - freshest_[gate]) * unit;
    for (const int candidate : first_) *x++ = candidate == static_cast<int>(i) ? 1.0f : 0.0f;
  }
}

void ContextFeatures::compute(const Context& context, std::span<const std::int32_t> ids, float* out,
                              std::int64_t stride) {
  std::fill_n(evidence_.begin(), ids.size(), Evidence{});
  std::fill(std::begin(totals_), std::end(totals_), 0);
  longest_ = 0;
  if (context.length() > 0) {
    assign_slots(ids);
    weigh_recent_tokens(context);
    walk_last_token(context);
    for (std::size_t i = 0; i < ids.size(); ++i) walk_candidate(context, ids[i], evidence_[i]);
  }
  find_first(context, ids);
  write(context, ids, out, stride);
}

}  // namespace dgap::runtime
