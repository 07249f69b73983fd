#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/context.hpp"

/// What the text so far says about every candidate of a window, from token ids alone. Formulas in
/// docs/features.md. Bundles that need them say so (`required_features`: "context-2").
namespace dgap::runtime {

// clang-format off
inline constexpr std::array<std::string_view, 31> kContextFeatures = {
    "log_count", "recency",
    "match1", "frequency1", "match2", "frequency2", "match3", "frequency3", "match5", "frequency5",
    "evidence1", "evidence2", "evidence3", "bigram_recency",
    "suffix", "suffix_gap", "fuzzy", "fuzzy_gap",
    "key", "key1", "key2", "key3", "key1_gap", "key2_gap", "key_scale",
    "fresh", "fresh1", "fresh_gap", "fresh1_gap", "first", "first1"};
// clang-format on
inline constexpr int kContextWidth = static_cast<int>(kContextFeatures.size());

/// How far a step looks back at most, so that its time has a bound: occurrences of the last token,
/// and of each candidate, the newest first.
inline constexpr int kLongestWalk = 4096, kLongestCandidateWalk = 256;

/// Computes the features, with the scratch of one thread.
class ContextFeatures {
 public:
  /// For windows of at most `window` candidates.
  explicit ContextFeatures(int window);

  /// Features of every candidate `ids` (distinct) after the text of `context`: row-major, rows
  /// `stride` floats apart. No allocation.
  void compute(const Context& context, std::span<const std::int32_t> ids, float* out,
               std::int64_t stride);

 private:
  static constexpr int kSuffix = 8;   // tokens that a suffix match compares
  static constexpr int kGates = 3;    // of the key-selection score
  static constexpr int kRecent = 32;  // tokens that are looked for
  static constexpr int kAround = 12;  // tokens among which they are looked for
  static constexpr int kCopied = 3;   // tokens of a place that come again when it is copied
  static constexpr int kMatches[] = {1, 2, 3, 5};
  static constexpr int kMatchLengths = 4;

  /// What the earlier occurrences of one candidate say.
  struct Evidence {
    std::int32_t matches[kMatchLengths] = {};  // after the last 1, 2, 3, 5 tokens
    std::int32_t bigram = -1;                  // last position after the last token
    std::int32_t longest = 0;
    float fuzzy = 0.0f;
    float key[kGates + 1] = {};  // any suffix, then suffixes of at least 1, 2, 3
    float fresh[2] = {};         // the same of places not copied yet: any suffix, at least 1
  };
  struct Slot {
    std::int32_t id = -1, candidate = -1;
  };

  void assign_slots(std::span<const std::int32_t> ids);
  std::int32_t candidate_of(std::int32_t id) const;
  void weigh_recent_tokens(const Context& context);
  float overlap(const Context& context, std::int32_t predecessor) const;
  void walk_last_token(const Context& context);
  void walk_candidate(const Context& context, std::int32_t id, Evidence& evidence) const;
  bool copied(const Context& context, std::int32_t place) const;
  std::int32_t first_fresh(const Context& context, std::int32_t id, int gate, float least) const;
  void find_first(const Context& context, std::span<const std::int32_t> ids);
  void write(const Context& context, std::span<const std::int32_t> ids, float* out,
             std::int64_t stride) const;

  std::vector<Slot> slots_;  // a hash table from ids to candidates
  std::vector<Evidence> evidence_;
  std::int32_t totals_[kMatchLengths] = {};  // earlier places that the last tokens match
  std::int32_t longest_ = 0;
  float weights_[kRecent] = {};  // of the last tokens, by position
  float freshest_[2] = {};       // the largest `fresh` among the candidates
  int first_[2] = {};            // the candidate whose fresh place comes first; -1: none
};

}  // namespace dgap::runtime
