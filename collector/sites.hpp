#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace dgap::collector {

/// Where the sites of one book begin, in tokens of the book: midpoints of equal shares of
/// [front_matter, tokens - needed], or of all of [0, tokens - needed] where the book is too short
/// to skip its front matter. `needed` = book tokens that a site takes. At most `sites`, and so few
/// that the decoded parts of `steps` tokens do not overlap. Empty when the book is shorter than
/// `needed`.
std::vector<std::int64_t> site_starts(std::int64_t tokens, std::int64_t needed, int front_matter,
                                      int sites, int steps);

/// Context lengths, ascending and distinct, grouped so that one growing reference decode serves
/// each group: within a group every context is at least `steps` longer than the one before.
std::vector<std::vector<int>> share_passes(std::span<const int> contexts, int steps);

}  // namespace dgap::collector
