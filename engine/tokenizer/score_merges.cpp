#include "engine/tokenizer/score_merges.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace dgap::engine {
namespace {

/// Equal scores have equal ranks, so that the leftmost of such merges comes first.
std::vector<std::uint32_t> ranks_of(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  std::vector<std::uint32_t> ranks(scores.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

void add_score_merges(BytePairModel& model, const std::vector<float>& scores) {
  const std::size_t count = model.pieces.size();
  std::unordered_map<std::string, std::int32_t> ids;
  ids.reserve(2 * count);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string& piece = model.pieces[id];
    if (piece.size() > kMaxPieceBytes) {
      throw base::UsageError("token " + std::to_string(id) + " has " +
                             std::to_string(piece.size()) + " bytes; at most " +
                             std::to_string(kMaxPieceBytes) + " are supported");
    }
    if (!piece.empty()) ids.emplace(piece, static_cast<std::int32_t>(id));
  }
  model.first_unlisted = static_cast<std::int32_t>(count);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string piece = model.pieces[id];
    for (std::size_t at = 0; at < piece.size(); at += utf8_length(piece[at])) {
      std::string character = piece.substr(at, utf8_length(piece[at]));
      const auto next = static_cast<std::int32_t>(model.pieces.size());
      if (ids.emplace(character, next).second) model.pieces.push_back(std::move(character));
    }
  }
  const std::vector<std::uint32_t> ranks = ranks_of(scores);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string_view piece = model.pieces[id];
    for (std::size_t at = 0; at < piece.size();) {
      at += utf8_length(piece[at]);
      if (at >= piece.size()) break;
      const auto left = ids.find(std::string(piece.substr(0, at)));
      const auto right = ids.find(std::string(piece.substr(at)));
      if (left == ids.end() || right == ids.end()) continue;
      model.merges.push_back(
          {left->second, right->second, static_cast<std::int32_t>(id), ranks[id]});
    }
  }
}

}  // namespace dgap::engine
